"""When two JSON values are the same: the order of keys, and 1 or 1.0, make no difference."""


def is_same(one: object, other: object) -> bool:
    """Compares parsed JSON. Iterative, because untrusted input decides how deeply it nests."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif _is_number(left) and _is_number(right):
            if left != right:
                return False
        elif type(left) is not type(right) or left != right:
            return False
    return True


def _is_number(value: object) -> bool:
    """In Python true is a number; in JSON it is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
