"""In notebooks: the extension of IPython, `%load_ext locus`."""
