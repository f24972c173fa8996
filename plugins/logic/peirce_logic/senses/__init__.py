"""Which sense a keyword with several has: labelled sentences, an encoder's vectors, a linear SVM for each keyword."""
