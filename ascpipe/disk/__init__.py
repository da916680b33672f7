"""Row files, which store rows of one size on disks. ``docs/internals/row_files.md`` describes them."""
