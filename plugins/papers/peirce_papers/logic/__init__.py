"""Arguments in words whose answer turns on a connective and its scope, as questions with options."""
