"""What models compute between the tokens of a text, as a page, as a picture, or as JSON: `peirce look`."""
