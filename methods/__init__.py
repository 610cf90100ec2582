"""The methods of the five papers, one file each. The file's name is the method's name."""
