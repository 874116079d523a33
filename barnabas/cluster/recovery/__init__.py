"""Recover the cluster's state in etcd from a backup, from the logstores' disks, or from both.

The result is safe whatever has happened since the backup: the leader of a partition has the longest log of the latest
epoch, and epochs and ids are never assigned twice (`plan`).
"""
