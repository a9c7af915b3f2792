"""What a request for the vector of a text asks for: vLLM's `PoolingParams`."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class PoolingParams:
    """`dimensions` cuts vectors of models that allow it (Matryoshka embeddings).

    `use_activation`: a vector gets the length 1, scores of labels become probabilities. None: as the model says.
    `normalize` and `activation` are older names of it. `task` may name what the method does anyway.
    """

    dimensions: int | None = None
    use_activation: bool | None = None
    normalize: bool | None = None
    activation: bool | None = None
    task: str | None = None

    @property
    def is_activated(self) -> bool | None:
        given = [value for value in (self.use_activation, self.normalize, self.activation) if value is not None]
        return given[0] if given else None
