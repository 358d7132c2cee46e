"""What is asked of a policy: three questions.

prompts [prompt token], responses [... prompt response token]. If the parameters carry a leading run axis, so do the
responses and the answers; code uses only the last axes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from pgrl_cli.equations.categorical import inverse_cdf, joint_probabilities, log_probs_of, log_softmax

Normals = Callable[..., Tensor]
"""Draws standard normal numbers (float64) of the shape it is given: what a policy's parameters start from."""


class Policy(nn.Module, ABC):
    """A causal policy: the logits of a token depend on the prompt and on the tokens before it."""

    @abstractmethod
    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """Logits [... prompt response token vocab] of every token, given those before it.

        The response axis is 1 where all responses to a prompt share them.
        """

    @abstractmethod
    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        """The responses that uniform numbers [... prompt response token] fall on; without any, the greedy one."""

    def vocab_log_probs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """log pi over the whole vocabulary, of the shape of `logits`."""
        return log_softmax(self.logits(prompts, responses))

    def log_probs(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """log pi [... prompt response token] of the responses' tokens."""
        return log_probs_of(responses, self.vocab_log_probs(prompts, responses))

    def every_probability(self, prompts: Tensor, responses: Tensor) -> Tensor:
        """pi [... prompt response] of all responses there are, in the order of `Task.every_response`."""
        return self.log_probs(prompts, responses).sum(dim=-1).exp()


class PositionwisePolicy(Policy):
    """A policy that decodes each token on its own: all tokens are drawn at once, and responses share their logits."""

    @abstractmethod
    def decode(self, prompts: Tensor) -> Tensor:
        """Logits [... prompt 1 token vocab], the same for every response to a prompt."""

    def logits(self, prompts: Tensor, responses: Tensor) -> Tensor:
        return self.decode(prompts)

    def respond(self, prompts: Tensor, uniforms: Tensor | None) -> Tensor:
        logits = self.decode(prompts)
        return logits.argmax(dim=-1) if uniforms is None else inverse_cdf(log_softmax(logits), uniforms)

    def every_probability(self, prompts: Tensor, responses: Tensor) -> Tensor:
        return joint_probabilities(self.vocab_log_probs(prompts, responses).squeeze(-3))
