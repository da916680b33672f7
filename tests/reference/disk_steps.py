"""Plain-Python twins of ``ascpipe/kernels/disk_steps.py``, for the turns of ``ring_steps``."""
from ascpipe.kernels.asks import LACKS_DISK, LACKS_HOMES, LACKS_NOTHING
from ascpipe.layout.words import TOUCHED
from tests.reference import completions, pinning, transfers


def pin_frames(ring, turn):
    table, waiting = turn.table, 0
    words = ring.tables[turn.column].words
    for frame in ring.frames:
        if words[frame.number] != TOUCHED or frame.number not in table.window:
            continue
        if frame.number > table.tier.newest_pinned:
            held = table.window[frame.number]
            if (frame.closed or waiting > table.tier.fetch_ahead or not pinning.queue_has_room(table.tier, len(held))
                    or not pinning.have_room(table, held)):
                return
            pinning.pin_frame(table, frame.number)
        waiting += 1


def move_table_rows(ring, turns):
    """Return (number of completed and new requests, number of tables that lack something)."""
    moved = lacking = 0
    for turn in turns:
        table, tier = turn.table, turn.table.tier
        if not tier or turn.is_loading:
            continue
        moved += completions.complete_requests(table)
        pin_frames(ring, turn)
        moved += transfers.move_rows(table)
        if tier.fetch_queue and not tier.free and tier.high == table.homes_ready < table.home_rows:
            turn.lacks = LACKS_HOMES
        elif tier.lost >= 0 or transfers.is_out_of_disk_slots(table):
            turn.lacks = LACKS_DISK
        lacking += turn.lacks != LACKS_NOTHING
    return moved, lacking
