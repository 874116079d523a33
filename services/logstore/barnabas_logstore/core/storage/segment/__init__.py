"""The files of a segment, their indexes, and the segments of a log in order."""
