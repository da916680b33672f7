"""Plain-Python twins of ``ascpipe/kernels/images.py``.

A log is a list of (number, entry), and marks are a set of numbers.
"""


def unkept(changed, copied, bound, marks):
    return [number for number in changed if copied <= number < bound and number not in marks]


def count_unkept(changed, copied, bound, marks):
    return len(unkept(changed, copied, bound, marks))


def keep_images(changed, copied, bound, marks, entries, log):
    """Append images to ``log``, add their numbers to ``marks``, and return the number of images."""
    for number in unkept(changed, copied, bound, marks):
        log.append((number, tuple(entries[number])))
        marks.add(number)
    return len(log)


def mark_kept(log):
    return {number for number, _ in log}
