"""The world behind protocols: clock, files, processes. The only importer of time, random, uuid, subprocess."""
