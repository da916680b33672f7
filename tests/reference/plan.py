"""Plain-Python twins of ``ascpipe/kernels/plan.py``; a row is (slot, home, count, frequency)."""
from ascpipe.layout.words import TRAINED
from tests.reference.frequency import next_frequency


def is_admitted(count, threshold):
    return threshold < 0 or count >= threshold


def draft_record(rows, occurrences, has_homes, has_slots, threshold, coefficient, now):
    """Return (new rows of the keys, indexes without a row, indexes with a row at home, number of admitted keys)."""
    drafted, fresh, loads, admitted = [], [], [], 0
    for i, ((slot, home, count, frequency), times) in enumerate(zip(rows, occurrences)):
        count += coefficient * times
        has_none = (home if has_homes else slot) < 0
        if not is_admitted(count, threshold) or (has_none and times == 0):
            drafted.append((-1, -1, count, frequency))
            continue
        admitted += 1
        drafted.append((slot, home, count, next_frequency(frequency, now) if now >= 0 else frequency))
        if has_none:
            fresh.append(i)
        elif has_slots and slot < 0:
            loads.append(i)
    return drafted, fresh, loads, admitted


def place_missing(missing, places, out_places):
    """Return the record's slots or home rows after ``places`` are assigned to the missing keys."""
    given = dict(zip(missing, places))
    return [given.get(i, place) for i, place in enumerate(out_places)]


def draft_count_only(rows, states, occurrences, threshold, coefficient):
    """Return the new rows of the keys.  With admission all keys are counted, otherwise only keys with trained state."""
    return [(-1, -1, count + (coefficient * times if threshold >= 0 or state == TRAINED else 0), frequency)
            for (_, _, count, frequency), state, times in zip(rows, states, occurrences)]
