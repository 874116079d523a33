"""Saving the cluster's state in etcd to a file, and restoring it from there and from the disks."""
