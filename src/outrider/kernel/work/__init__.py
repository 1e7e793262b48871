"""Jobs: who takes them, holds them, rescues them, and the loops beside them."""
