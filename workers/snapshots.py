"""Class ``Snapshots``, which stores an image of an uncopied entry before the table worker changes the entry.

During training, the trainer copies the entries below ``snapshot_bound`` in the order of their numbers. Then it replaces
entries of its copy by the images that the worker has stored. A snapshot begins inside a hold, after all records are
assigned and all cuts applied, so no earlier change is incomplete.

Entries change when a record is assigned. This happens after the images of the record are stored. Entries also change in
the cuts EVICT, RESET and LOAD, which wait for the end of the snapshot. Changes between FREE and NAMED
(``touch.name_keys``, ``touch.leave_window``) need no image, because the copy contains only TRAINED entries, and only a
record makes an entry TRAINED.
"""
from ascpipe.kernels.records import Record
from ascpipe.shm.ring import TableView
from ascpipe.tables.snapshot import NO_ROOM, Images


class Snapshots:
    """Handler of the snapshots of one table in the table worker."""

    def __init__(self, view: TableView) -> None:
        self._view = view
        self._images = Images(view.header, view.entries, view.log, view.ready_log)
        self._awaits_end = False
        self.is_dirty = False  #: whether private memory of a snapshot must be freed after its end

    def is_on(self) -> bool:
        """Return whether a snapshot is copying entries."""
        # the bound changes only in a hold, when no record is assigned and no cut is applied
        # SYNC snapshot-copied: load
        return self._view.load("snapshot_copied") < int(self._view.header["snapshot_bound"])

    def keep(self, record: Record) -> bool:
        """Store the images that are needed before a record is assigned.

        Returns:
            False if the log of images is full. In this case, the assignment must wait for the end of the
            snapshot. The trainer then rings the bell of this worker.
        """
        self.is_dirty = self.is_on()
        if not self.is_dirty:
            self._awaits_end = False
            self._images.forget()
            return True
        if self._awaits_end:
            return False
        logged = self._images.append(record, self._view.load("snapshot_copied"))
        if logged == NO_ROOM:
            self._awaits_end = True
            self._view.header["snapshot_waits"] += 1
            return False
        self._view.store("snapshot_logged", logged)  # SYNC images: store, a full fence before the changes
        return True
