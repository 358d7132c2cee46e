"""Run by test_ray.py in a process of its own: a sweep on a local cluster of two nodes, one of which is killed half-way.

    python sweep_while_a_node_dies.py SWEEP.yaml RUNS_DIR

Prints what became of it as JSON.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from pgrl_cli import sweep as sweeps
from pgrl_cli.config.sweep_spec import read_sweep
from pgrl_cli.planning import planned


def main(config: str, runs_dir: str) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    nodes_before = len([node for node in ray.nodes() if node["Alive"]])
    spec = read_sweep(config)
    sweep = sweeps.begin(spec, planned(spec, 2), Path(runs_dir), ["pgrl"])
    running = {}

    def kill_half_way() -> None:
        while True:
            begun = [path for path in sweep.folder.glob("cells/*/metrics.jsonl") if path.stat().st_size]
            told = [json.loads((path.parent / "status.json").read_bytes()) for path in begun]
            going = [status["pid"] for status in told if status["status"] == "running"]
            if len(going) == 2:  # one on each node
                running["pids"] = going
                cluster.remove_node(doomed, allow_graceful=False)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_half_way, daemon=True)
    killer.start()
    sweeps.work(
        sweep,
        sweeps.missing(sweep, retry_failed=False),
        launcher="ray",
        processes=2,
        pictures=False,
        fail_fast=False,
        watch=lambda standing, failed: None,
    )
    ends = time.monotonic() + 30  # the cluster learns of a death by a missing heartbeat
    while (alive := len([node for node in ray.nodes() if node["Alive"]])) > 1 and time.monotonic() < ends:
        time.sleep(0.1)
    pids = [sweep.status(cell)["pid"] for cell in sweep.cells]
    told = {
        "sweep": str(sweep.folder),
        "before": nodes_before,
        "after": alive,
        "running": running["pids"],
        "pids": pids,
    }
    print("\n" + json.dumps(told), flush=True)
    ray.shutdown()
    cluster.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
