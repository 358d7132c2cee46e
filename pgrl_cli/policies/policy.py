"""What is asked of a policy: three questions, and a fourth by critics.

prompts [prompt token], responses [... prompt response token]. If the parameters carry a leading run axis, so do the
responses and the answers; code uses only the last axes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from torch import Tensor, nn

from pgrl_cli.equations.averages import masked
from pgrl_cli.equations.categorical import (
    closed,
    inverse_cdf,
    joint_probabilities,
    log_probs_of,
    log_softmax,
    until_end,
)

Normals = Callable[..., Tensor]
"""Draws standard normal numbers (float64) of the shape it is given: what a policy's parameters start from."""


class Policy(nn.Module, ABC):
    """A causal policy: the logits of a token depend on the prompt and on the tokens before it."""

    def __init__(self, end: int | None = None):
        """Of the token that ends a response; None where all have one length."""
        super().__init__()
        self.end = end

    @abstractmethod
    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Logits [... prompt response token vocab] of every token, given those before it.

        The response axis is 1 where all responses to a prompt share them.
        """

    @abstractmethod
    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        """The responses that uniform numbers [... prompt response token] fall on; without any, the greedy one.

        Behind the first end token there is nothing but itself.
        """

    @property
    @abstractmethod
    def feature_size(self) -> int:
        """How many numbers `features` says of a state."""

    @property
    def numbers_per_token(self) -> int:
        """About how many numbers a gradient keeps of each token of each prompt and response, beside its logits.

        0 where responses to a prompt share what is known of them.
        """
        return 0

    @property
    def beyond_shapes(self) -> Mapping[str, int]:
        """Knobs without which its parameters mean something else, though their shapes are the same."""
        return {}

    @abstractmethod
    def features(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """The state before each token, and behind the last: [... prompt response token+1 feature].

        A fourth question, asked only by critics: what a value is a function of. A state depends on the prompt and on
        the tokens before it; the response axis is 1 where all responses to a prompt share their states.
        """

    def vocab_log_probs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """log pi over the whole vocabulary, of the shape of `logits`."""
        return log_softmax(self.logits(prompts, responses))

    def log_probs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """log pi [... prompt response token] of the responses' tokens."""
        return log_probs_of(responses, self.vocab_log_probs(prompts, responses))

    def response_log_probs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """log pi [... prompt response] of whole responses, up to their end."""
        return masked(self.log_probs(prompts, responses), until_end(responses, self.end)).sum(dim=-1)

    def every_probability(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """pi [... prompt response] of all responses there are, in the order of `Task.every_response`."""
        return self.response_log_probs(prompts, responses).exp()


class PositionwisePolicy(Policy):
    """A policy that decodes each token on its own: all tokens are drawn at once, and responses share their logits."""

    @abstractmethod
    def decode(self, prompts: Tensor) -> Tensor:
        """Logits [... prompt 1 token vocab], the same for every response to a prompt."""

    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        return self.decode(prompts)

    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        logits = self.decode(prompts)
        tokens = logits.argmax(dim=-1) if uniforms is None else inverse_cdf(log_softmax(logits), uniforms)
        return closed(tokens, self.end)

    def every_probability(self, prompts: Tensor, responses: Tensor) -> Tensor:
        if self.end is not None:
            return super().every_probability(prompts, responses)
        return joint_probabilities(self.vocab_log_probs(prompts, responses).squeeze(-3))
