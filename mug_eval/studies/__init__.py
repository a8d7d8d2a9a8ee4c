"""Studies: runs declared together, and the table and figure that are read from their result folders."""
