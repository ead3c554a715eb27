"""One module for each file format: a reader from a stream to Arrow batches, a writer from batches to a file."""
