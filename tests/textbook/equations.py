"""The equations as they stand in the papers, of lists of numbers; losses and divergences of one response's tensors."""

import math
import statistics

import torch


def discounted(rewards, discount, rest=0.0):
    """G_t = sum over k of discount^k r_(t+k), and what stands behind the last reward."""
    last = len(rewards)
    return [
        sum(discount ** (k - t) * rewards[k] for k in range(t, last)) + discount ** (last - t) * rest
        for t in range(last)
    ]


def gae(rewards, values, discount, decay):
    """Schulman et al., 2016, eq. 16: the sum of (discount lambda)^l times the TD error l tokens later."""
    errors = [r + discount * after - before for r, before, after in zip(rewards, values, values[1:], strict=False)]
    return discounted(errors, discount * decay)


def n_step(rewards, values, discount, steps):
    """Sutton & Barto, 2018, eq. 7.1, minus the value."""
    found = []
    for t in range(len(rewards)):
        end = min(t + steps, len(rewards))
        earned = sum(discount ** (k - t) * rewards[k] for k in range(t, end))
        found.append(earned + discount ** (end - t) * values[end] - values[t])
    return found


def lambda_returns(rewards, values, discount, decay):
    """Sutton & Barto, 2018, eq. 12.3: the weighted mean of all n-step returns."""
    found = []
    for t in range(len(rewards)):
        left = len(rewards) - t
        ns = [n_step(rewards, values, discount, n)[t] + values[t] for n in range(1, left + 1)]
        weights = [(1 - decay) * decay ** (n - 1) for n in range(1, left)] + [decay ** (left - 1)]
        found.append(sum(weight * each for weight, each in zip(weights, ns, strict=True)))
    return found


def targets(settings, rewards, values):
    """What a critic learns."""
    discount, decay = settings["discount"], settings.get("gae_lambda")
    kind = settings["value_target"]
    if kind == "td":
        return [r + discount * after for r, after in zip(rewards, values[1:], strict=True)]
    if kind == "monte_carlo":
        return discounted(rewards, discount, values[-1])
    return lambda_returns(rewards, values, discount, decay)


def z_scores(values, among):
    """Distances from the mean of some, in their standard deviations."""
    if len(set(among)) == 1:
        return [0.0 for _ in values]
    mean, deviation = statistics.mean(among), statistics.stdev(among)
    return [(value - mean) / (deviation + 1e-5) for value in values]


def leave_one_out(rewards, weights=None):
    """Each minus the (weighted) mean of the others."""
    weights = weights or [1.0] * len(rewards)
    found = []
    for i, reward in enumerate(rewards):
        others = [j for j in range(len(rewards)) if j != i]
        found.append(reward - sum(weights[j] * rewards[j] for j in others) / sum(weights[j] for j in others))
    return found


def losses(settings, new, old, advantages):
    """The policy loss of each of a response's tokens: [token] each -> [token]."""
    ratios = (new - old).exp()
    low, high = bounds(settings)
    kind = settings["loss_mode"]
    if kind == "naive":
        return -advantages * new
    if kind == "unclipped":
        return -advantages * ratios
    if kind == "clipped":
        gains = torch.minimum(advantages * ratios, advantages * ratios.clamp(1 - low, 1 + high))
        if settings["dual_clip"] is not None:
            gains = torch.where(advantages < 0, gains.maximum(settings["dual_clip"] * advantages), gains)
        return -gains
    if kind == "sequence_clipped":  # eq. 14 of Zheng et al., 2025, each token with the sequence's ratio
        of_all = (new - old).mean().exp().detach() * (new - new.detach()).exp()
        return -torch.minimum(advantages * of_all, advantages * of_all.clamp(1 - low, 1 + high))
    if kind == "cispo":
        least = None if settings["clip_low"] is None else 1 - low
        most = None if settings["clip_high"] is None else 1 + high
        weights = ratios.detach() if least is most is None else ratios.detach().clamp(least, most)
    else:
        weights = ratios.detach().prod() if settings["importance_level"] == "sequence" else ratios.detach()
        weights = weights.clamp(max=settings["importance_cap"] or math.inf)
    return -weights * advantages * new


def bounds(settings):
    both = settings.get("clip_epsilon")
    low, high = settings.get("clip_low"), settings.get("clip_high")
    return both if low is None else low, both if high is None else high


def is_cut_off(settings, new, old, advantages):
    """Which tokens have no gradient, because the clip holds them: bools; None where nothing does."""
    kind = settings["loss_mode"]
    if kind not in ("clipped", "sequence_clipped"):
        return None
    ratios = (new - old).exp() if kind == "clipped" else (new - old).mean().exp().expand(len(new))
    low, high = bounds(settings)
    dual = settings.get("dual_clip") or math.inf
    return [
        (a > 0 and r > 1 + high) or (a < 0 and (r < 1 - low or r > dual))
        for a, r in zip(advantages.tolist(), ratios.tolist(), strict=True)
    ]


def divergences(settings, policy, reference, tokens):
    """KL(policy || reference) as its estimator says, of [token vocab] each: of each token, or of the whole response."""
    kind = settings["kl_estimator"]
    if kind == "exact":
        return (policy.exp() * (policy - reference)).sum(dim=-1)
    logs = (policy - reference)[range(len(tokens)), tokens]
    if settings["kl_level"] == "sequence":
        logs = logs.sum(dim=-1, keepdim=True)
    return {"k1": logs, "k2": logs**2 / 2, "k3": (-logs).exp() - 1 + logs}[kind]


def averaged(kind, values, budget):
    """One number of a batch: a tensor [token] for each response."""
    if not values:
        return torch.zeros((), dtype=torch.float64)
    if kind == "token_mean":
        return torch.cat(values).mean()
    if kind == "response_mean":
        return torch.stack([each.mean() for each in values]).mean()
    total = torch.stack([each.sum() for each in values]).mean()
    return total / budget if kind == "budget_mean" else total
