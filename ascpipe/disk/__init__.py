"""Row files: rows of one size on disks.  docs/row_files.md"""
