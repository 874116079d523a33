"""Many partitions, of which most do nothing: what first writes, changes and idle seconds cost."""
