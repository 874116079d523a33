"""Import this before anything else of a process with an event loop: no garbage is collected while its code is loaded.

What a module makes stays. Collections that find nothing are 6 to 13 % of the CPU time until a process has its code, and
`barnabas.runtime.collector` begins with them when the event loop is there.
"""

import gc

gc.disable()
