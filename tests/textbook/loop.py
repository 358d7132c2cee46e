"""The training loop, response by response; torch's own optimizers, and a dense natural gradient."""

import math
import statistics

import torch
from textbook import equations
from textbook.policies import every_response, log_probs, policy_of, vocab_log_probs, without_padding, written
from textbook.rewards import answer
from textbook.rollouts import differ, response, rounds


def mean(values):
    values = list(values)
    return sum(values) / len(values)


class Book:
    """A run of a config, from the parameters that the package's own begins with."""

    def __init__(self, config, task, parameters, critic):
        self.settings = config.settings | {"seed": config.run_seeds[0]}
        self.weights, self.task = config.weights(), task
        self.prompts, self.held_out = without_padding(task, task.prompts), without_padding(task, task.held_out)
        self.policy = policy_of(self.settings, task)
        self.parameters = leaves(parameters)
        self.reference = self.previous = self.past_mean = self.rollout = None
        self.epoch = self.step = 0
        self.coefficients = {name: self.settings[name] for name in ("kl_coefficient", "old_kl_coefficient")}
        self.optimizer = optimizer_of(self.settings, self.settings["optimizer"], self.parameters)
        self.critic = critic
        if self.settings["warm_start"] is not None:
            self.warm_up()
        if critic is not None:
            self.start_the_critic(critic)

    def start_the_critic(self, critic):
        self.critic = leaves({name: critic[name] for name in ("weights", "offset")})
        if self.settings["critic"] == "separate":
            self.critic |= leaves(self.parameters)
        self.critics_optimizer = optimizer_of(self.settings, self.settings["critic_optimizer"], self.critic)

    def values(self, prompt, tokens):
        """[token+1]."""
        body = self.critic if self.settings["critic"] == "separate" else self.parameters
        features = self.policy.features(body, prompt, tokens)
        return features @ self.critic["weights"] + self.critic["offset"]

    def warm_up(self):
        told = self.settings["warm_start"]
        adam = torch.optim.Adam(list(self.parameters.values()), lr=told.learning_rate)
        for _ in range(told.epochs):
            right = [(prompt, answer(self.settings, prompt, self.task.end)) for prompt in self.prompts]
            loss = -torch.cat([log_probs(self.policy, self.parameters, *each) for each in right]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()

    def rows(self):
        """The lines of metrics.jsonl, and the responses that each epoch learns from."""
        lines, sampled = [], []
        while self.epoch < self.settings["epochs"]:
            lines += self.an_epoch()
            sampled.append([(each.prompt, each.tokens) for one in self.rollout[1] for each in one])
            self.epoch += 1
        return lines, sampled

    def an_epoch(self):
        settings = self.settings
        before = copied(self.parameters)
        period = settings["reference_period"]
        if self.coefficients["kl_coefficient"] and (self.reference is None or (period and self.epoch % period == 0)):
            self.reference = before
        fresh = self.epoch % settings["rollout_reuse"] == 0
        if fresh:
            self.rollout = rounds(self)
        every, kept = self.rollout
        batch = [each for one in kept if len(one) for each in one]
        lines = [self.a_step(batch) for _ in range(settings["steps_per_epoch"])]
        moved = mean_kl(self, before, batch)
        for line in lines:
            line |= of_groups(self, every, kept, fresh)
        for name, target in (("kl_coefficient", "kl_target"), ("old_kl_coefficient", "old_kl_target")):
            if settings[target] is not None:
                for line in lines:
                    line[name] = self.coefficients[name]
        due = (self.epoch + 1) % settings["eval_period"] == 0 or self.epoch == settings["epochs"] - 1
        lines[-1] |= of_the_policy(self) if due else {}
        if due or settings["old_kl_target"] is not None:
            lines[-1]["epoch_kl"] = moved
        self.follow(every, moved, fresh)
        self.previous = before
        return lines

    def follow(self, every, moved, fresh):
        """What the next epoch needs of this one."""
        settings, responses = self.settings, [each for one in every for each in one]
        if settings["kl_target"] is not None and fresh:
            off = min(max(mean(each.kl for each in responses) / settings["kl_target"] - 1, -0.2), 0.2)
            self.coefficients["kl_coefficient"] *= 1 + off * len(responses) / settings["kl_horizon"]
        if settings["old_kl_target"] is not None:
            target = settings["old_kl_target"]
            self.coefficients["old_kl_coefficient"] *= 2 if moved > 1.5 * target else 0.5 if moved < target / 1.5 else 1
        if settings["delta_mode"] == "moving_average_baseline" and fresh:
            now, decay = mean(each.reward for each in responses), settings["baseline_decay"]
            self.past_mean = now if self.past_mean is None else decay * self.past_mean + (1 - decay) * now

    def objective(self, batch):
        """The number to descend, with a line of metrics about it."""
        settings, line = self.settings, {}
        budget = settings.get("token_budget")
        now = [vocab_log_probs(self.policy, self.parameters, each.prompt, each.tokens) for each in batch]
        chosen = [new[range(len(each.tokens)), each.tokens] for new, each in zip(now, batch, strict=True)]
        loss = equations.averaged(
            settings["average"],
            [
                equations.losses(settings, new, each.old_log_probs, torch.tensor(each.advantages, dtype=new.dtype))
                for new, each in zip(chosen, batch, strict=True)
            ],
            budget,
        )
        if self.reference is not None and settings["kl_placement"] == "loss":
            theirs = [vocab_log_probs(self.policy, self.reference, each.prompt, each.tokens) for each in batch]
            pulls = [
                equations.divergences(settings, new, other, each.tokens)
                for new, other, each in zip(now, theirs, batch, strict=True)
            ]
            line["kl"] = equations.averaged(settings["kl_average"], pulls, budget)
            loss = loss + self.coefficients["kl_coefficient"] * line["kl"]
        if settings["old_kl_coefficient"]:
            gone = [(each.old.exp() * (each.old - new)).sum(dim=-1) for new, each in zip(now, batch, strict=True)]
            line["old_kl"] = equations.averaged("token_mean", gone, budget)
            loss = loss + self.coefficients["old_kl_coefficient"] * line["old_kl"]
        line["entropy"] = equations.averaged("token_mean", [-(new.exp() * new).sum(dim=-1) for new in now], budget)
        bonus = settings["entropy_coefficient"]
        if bonus:
            bonus *= decay(settings["entropy_decay"], self.epoch, settings["epochs"])
        line["loss"] = loss - bonus * line["entropy"]
        return line["loss"], {name: value.item() for name, value in line.items()} | of_ratios(settings, chosen, batch)

    def a_step(self, batch):
        """One optimizer step, and its line of metrics."""
        settings = self.settings
        loss, line = self.objective(batch)
        line["step"], line["epoch"] = self.step, self.epoch
        self.step += 1
        total = loss
        if self.critic is not None:
            value_loss, line["explained_variance"] = self.critics_loss(batch)
            line["value_loss"] = value_loss.item()
            total = loss + (settings["value_coefficient"] if settings["critic"] == "shared" else 1.0) * value_loss
        learners = [(self.parameters, self.optimizer, "learning_rate")]
        if self.critic is not None:
            learners.append((self.critic, self.critics_optimizer, "critic_learning_rate"))
        every = [leaf for parameters, _, _ in learners for leaf in parameters.values()]
        gradients = (
            list(torch.autograd.grad(total, every, materialize_grads=True))
            if total.requires_grad
            else [torch.zeros_like(leaf) for leaf in every]
        )
        for parameters, optimizer, rate in learners:
            own, gradients = gradients[: len(parameters)], gradients[len(parameters) :]
            norm = math.sqrt(sum((each**2).sum().item() for each in own))
            if rate == "learning_rate":
                line["gradient_norm"] = norm
            most = settings["max_gradient_norm"] or math.inf
            own = [each * min(1.0, most / max(norm, 1e-300)) for each in own]
            if optimizer is None:
                line["step_kl"] = natural_step(self, batch, loss, own)
                continue
            for leaf, gradient in zip(parameters.values(), own, strict=True):
                leaf.grad = gradient
            optimizer.param_groups[0]["lr"] = settings[rate] * self.schedule()
            optimizer.step()
        return line

    def schedule(self):
        settings, warm = self.settings, self.settings["learning_rate_warmup"]
        if self.epoch < warm:
            return (self.epoch + 1) / warm
        return decay(settings["learning_rate_decay"], self.epoch - warm, settings["epochs"] - warm)

    def critics_loss(self, batch):
        found, olds, wanted = [], [], []
        for each in batch:
            values = self.values(each.prompt, each.tokens)[:-1]
            old, target = (
                torch.tensor(one[: len(each.tokens)], dtype=values.dtype) for one in (each.values, each.targets)
            )
            losses, clip = (values - target) ** 2, self.settings["value_clip"]
            if clip is not None:
                losses = losses.maximum((old + (values - old).clamp(-clip, clip) - target) ** 2)
            found.append(losses / 2)
            olds += old.tolist()
            wanted += target.tolist()
        if len(set(wanted)) < 2:
            return equations.averaged("token_mean", found, None), math.nan
        left = [target - old for target, old in zip(wanted, olds, strict=True)]
        return torch.cat(found).mean(), 1 - statistics.pvariance(left) / statistics.pvariance(wanted)


def leaves(parameters):
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}


def copied(parameters):
    return {name: tensor.detach().clone() for name, tensor in parameters.items()}


def optimizer_of(settings, word, parameters):
    """torch's own; None for a natural gradient. Its rate is set before each step."""
    own = list(parameters.values())
    if word == "trpo":
        return None
    if word == "sgd":
        return torch.optim.SGD(own, lr=1.0, momentum=settings["momentum"])
    adams = {"betas": (settings["adam_beta1"], settings["adam_beta2"]), "eps": settings["adam_epsilon"], "lr": 1.0}
    if word == "adam":
        return torch.optim.Adam(own, **adams)
    return torch.optim.AdamW(own, weight_decay=settings["weight_decay"], **adams)


def decay(word, epoch, epochs):
    """Of a schedule: 1 in the first epoch, 0 in the last."""
    progress = epoch / max(1, epochs - 1)
    return {"none": 1.0, "linear": 1 - progress, "cosine": 0.5 * (1 + math.cos(math.pi * progress))}[word]


def natural_step(book, batch, loss, gradient):
    """TRPO with the Fisher matrix written out and a dense solve; the KL that the step has come to."""
    settings, own = book.settings, list(book.parameters.values())
    if not flat(gradient).any():
        return 0.0
    start, before = loss.item(), copied(book.parameters)
    matrix, tokens = 0.0, 0
    for each in batch:
        now = vocab_log_probs(book.policy, book.parameters, each.prompt, each.tokens)
        for row in now:
            tokens += 1
            for log_prob in row:
                slopes = torch.autograd.grad(log_prob, own, retain_graph=True, materialize_grads=True)
                score = flat(slopes)
                matrix = matrix + log_prob.exp().item() * torch.outer(score, score)
    matrix, slope = matrix / tokens, flat(gradient)
    direction = torch.linalg.solve(matrix + settings["cg_damping"] * torch.eye(len(slope)), slope)
    step = math.sqrt(2 * settings["max_kl"] / (direction @ matrix @ direction).item()) * direction
    for halved in range(settings["backtracks"] + 1):
        moves = (step * 0.5**halved).split([leaf.numel() for leaf in own])
        with torch.no_grad():
            for leaf, old, move in zip(own, before.values(), moves, strict=True):
                leaf.copy_(old - move.view(leaf.shape))
        reached = mean_kl(book, before, batch)
        if book.objective(batch)[0].item() < start and reached <= settings["max_kl"]:
            return reached
    with torch.no_grad():
        for leaf, old in zip(own, before.values(), strict=True):
            leaf.copy_(old)
    return 0.0


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors]).detach()


@torch.no_grad()
def mean_kl(book, before, batch):
    """KL(before || now) per token of the responses."""
    gaps = []
    for each in batch:
        old, new = (vocab_log_probs(book.policy, one, each.prompt, each.tokens) for one in (before, book.parameters))
        gaps += (old.exp() * (old - new)).sum(dim=-1).tolist()
    return mean(gaps) if gaps else 0.0


def of_ratios(settings, chosen, batch):
    """How far a step is from the policy that sampled."""
    ratios, held = [], []
    for new, each in zip(chosen, batch, strict=True):
        new = new.detach()
        ratios += (new - each.old_log_probs).exp().tolist()
        advantages = torch.tensor(each.advantages, dtype=new.dtype)
        cut = equations.is_cut_off(settings, new, each.old_log_probs, advantages)
        held = None if cut is None else held + cut
    return {
        "ratio_max": max(ratios, default=0.0),
        "effective_sample_size": sum(ratios) ** 2 / len(ratios) / sum(r * r for r in ratios) if ratios else 0.0,
        "bounded_ratios": 0.0,
        "clip_fraction": None if held is None else mean(held) if held else 0.0,
    }


def of_groups(book, every, kept, fresh):
    """What groups are like, also those that were dropped."""
    responses, settings = [each for one in every for each in one], book.settings
    line = {
        "mean_reward": mean(each.task_reward for each in responses),
        "shaped_reward": mean(each.reward for each in responses),
        "zero_variance_groups": mean(not differ(one) for one in every),
        "response_length": mean(len(each.tokens) for each in responses),
        "reward_std": mean(statistics.stdev(each.task_reward for each in one) for one in every)
        if settings["num_responses"] > 1
        else None,
    }
    if book.task.end is not None:
        line |= lengths_by_answer(book, responses)
    if len(book.weights) > 1:
        line |= {f"reward/{name}": mean(each.points[name] for each in responses) for name in book.weights}
    if settings["drop_zero_variance_groups"]:
        line |= {"kept_groups": len(kept), "sampled_responses": len(responses) if fresh else 0}
    if book.reference is not None and settings["kl_placement"] == "reward":
        line["kl"] = mean(each.kl for each in responses)
    return line


def lengths_by_answer(book, responses):
    """How long responses are that are not the right answer, and those that are; NaN where there are none."""
    lengths = {"wrong_response_length": [], "right_response_length": []}
    for each in responses:
        right = each.tokens == answer(book.settings, each.prompt, book.task.end)
        lengths["right_response_length" if right else "wrong_response_length"].append(len(each.tokens))
    return {name: mean(those) if those else math.nan for name, those in lengths.items()}


@torch.no_grad()
def of_the_policy(book):
    """What the policy that an epoch leaves is like."""
    end, task = book.task.end, book.task

    def matches(prompts):
        if not prompts:
            return None
        return mean(
            written(book.policy, book.parameters, p, task, None) == answer(book.settings, p, end) for p in prompts
        )

    def chance(prompt, tokens):
        return log_probs(book.policy, book.parameters, prompt, tokens).sum().exp().item()

    solved = [chance(prompt, answer(book.settings, prompt, end)) for prompt in book.prompts]
    equal = []
    for prompt in book.prompts:
        kinds = {}
        for tokens in every_response(task):
            reward = round(response(book, prompt, tokens).task_reward, 9)
            kinds[reward] = kinds.get(reward, 0.0) + chance(prompt, tokens)
        equal.append(sum(q ** book.settings["num_responses"] for q in kinds.values()))
    return {
        "exact_match": matches(book.prompts),
        "held_out_exact_match": matches(book.held_out),
        "solution_probability": mean(solved),
        "lowest_solution_probability": min(solved),
        "expected_zero_variance_groups": mean(equal),
    }
