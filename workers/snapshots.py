"""Keeps images during a snapshot: the table worker changes an entry that is not copied yet only after it kept an image.

The trainer copies the entries below ``snapshot_bound``, in the order of their numbers, while training goes on, and
puts the images over its copy in the end.  A snapshot begins inside a hold, when every record is assigned and no cut
is left to be applied: so nothing that was begun before it changes an entry during it.

Entries change where a record is assigned and in the cuts EVICT, RESET and LOAD, nowhere else; and these wait.  Besides,
an entry without trained state becomes a name (``touch.name_keys``), and a name becomes free (``touch.leave_window``).
This needs no image: the copy takes TRAINED entries only, and what it may read there of such an entry, in any order, is
FREE or NAMED, until a record makes it TRAINED; and before that an image of it is kept.
"""
from ascpipe.kernels.records import Record
from ascpipe.shm.ring import TableView
from ascpipe.tables.snapshot import NO_ROOM, Images


class Snapshots:
    """The snapshots of one table.

    Args:
        view: the table's segment.
    """

    def __init__(self, view: TableView) -> None:
        self._view = view
        self._images = Images(view.header, view.entries, view.log, view.ready_log)
        self._awaits_end = False
        self.is_dirty = False  #: there are private marks of a snapshot, to be freed when it is over

    def is_on(self) -> bool:
        """Whether entries are being copied."""
        # the bound is written in the hold only, when nothing is about to change
        # SYNC snapshot-copied: load
        return self._view.load("snapshot_copied") < int(self._view.header["snapshot_bound"])

    def keep(self, record: Record) -> bool:
        """Keep the images that must be kept before a record may be assigned.

        Returns:
            False if that must wait for the end of a snapshot: there is no room in its log.  Not less than its end,
            although less might do: for that the trainer rings, and not whenever some more entries are copied.
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
