"""One backend per device, because verl asks for two on the CPU.

verl initialises its process group with `cpu:gloo,<device>:<backend>`; with the CPU as device that names `cpu` twice,
which torch refuses. The wrapper turns exactly that request into `gloo` and passes everything else through.
"""

from __future__ import annotations

from typing import Any

import torch.distributed

_REQUEST = "cpu:gloo,cpu:gloo"
_init_process_group = torch.distributed.init_process_group


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Call torch's function, with the doubled CPU backend written once."""
    return _init_process_group("gloo" if backend == _REQUEST else backend, *args, **kwargs)


torch.distributed.init_process_group = init_process_group
