"""Row files: rows of one size on disks.  docs/internals/row_files.md"""
