"""pgrl: policy-gradient experiments on language models, from a YAML to a picture.

Read upwards; a file imports only from floors below its own.

    cli                               parses, calls one function, prints; the only file that prints
    experiment                        a config in, a run folder out: the whole story on one page
    resolution   listing              layers of words into a config that can run; what there is to choose from
    words                             the tables behind the words
    plots   logs   training/          trainer · measures · objectives · rollouts · updates · parts
    runs           policies/          positional · table · policy · stack
                   tasks/             sorting · two_state · task · own_rewards
                   equations/         advantages · losses · divergences · averages · categorical
    config/        registry   draws   strict, frozen config; what a signature says; numbers from a seed
"""

__version__ = "0.1.0"
