"""The torch code of the two documents, unchanged, with the imports and data that it leaves out. Skipped without
torch."""

import pytest

pytest.importorskip("torch")
LONG = 180  # seconds: importing torch is slow, in a driver and in its workers

WORKER = """
import torch
import miniray
from miniray.ps import create_parameter_server
import torch.nn as nn

# 定义 Worker（需实现 get_weights() 和 set_weights()）
@miniray.remote
class TrainingWorker:
    def __init__(self, worker_id):
        self.model = nn.Linear(10, 1)

    def get_weights(self):
        return [p.detach().cpu() for p in self.model.parameters()]

    def set_weights(self, weights):
        with torch.no_grad():
            for param, new_weight in zip(self.model.parameters(), weights):
                param.copy_(new_weight)

    def train_step(self):
        # 训练逻辑...
        pass
"""

START = """
# 初始化 Mini-Ray
miniray.init(num_workers=4)
"""


def test_the_whole_example(run_program):
    done = run_program(WORKER + START + """
# 创建 ParameterServer 和 Workers
ps = create_parameter_server('average')
workers = [TrainingWorker.remote(i) for i in range(4)]
before = miniray.get([w.get_weights.remote() for w in workers])

# 训练循环
for epoch in range(10):
    # 并行训练
    miniray.get([w.train_step.remote() for w in workers])

    # 每 3 个 epoch 同步一次
    if (epoch + 1) % 3 == 0:
        ps.sync_from_workers.remote(workers)
        print(f"Epoch {epoch+1}: 参数同步完成")

after = miniray.get([w.get_weights.remote() for w in workers])
for tensor in range(2):
    mean = torch.stack([weights[tensor] for weights in before]).mean(0)
    assert all(torch.allclose(weights[tensor], mean, atol=1e-6) for weights in after)
    assert type(after[0][tensor]) is torch.Tensor
print(miniray.get(ps.get_stats.remote())["num_syncs"])
""", environment={"PYTHONIOENCODING": "utf-8"}, timeout=LONG)
    assert done.stdout.splitlines() == [f"Epoch {epoch}: 参数同步完成" for epoch in (3, 6, 9)] + ["3"]
    assert done.stderr == ""


def test_a_strategy_of_the_users_own(run_program):
    done = run_program(WORKER + START + """
from miniray.ps.strategies import SyncStrategy, STRATEGIES

class MedianStrategy(SyncStrategy):
    def aggregate(self, weight_lists):
        import torch
        num_params = len(weight_lists[0])
        aggregated = []

        for p_idx in range(num_params):
            tensors = [w[p_idx] for w in weight_lists]
            if torch.is_floating_point(tensors[0]):
                stacked = torch.stack(tensors)
                median_tensor = torch.median(stacked, dim=0)[0]
                aggregated.append(median_tensor)
            else:
                aggregated.append(tensors[0])

        return aggregated

# 注册策略
STRATEGIES['median'] = MedianStrategy

# 使用
from miniray.ps import create_parameter_server
ps = create_parameter_server('median')
workers = [TrainingWorker.remote(i) for i in range(4)]
before = miniray.get([w.get_weights.remote() for w in workers])
print(miniray.get(ps.sync_from_workers.remote(workers)), miniray.get(ps.get_stats.remote())["strategy"])
for w in workers:
    for got, *given in zip(miniray.get(w.get_weights.remote()), *before):
        assert torch.equal(got, torch.median(torch.stack(given), dim=0)[0])  # the lower of the two in the middle
""", timeout=LONG)
    assert done.stdout == "1 MedianStrategy\n"
    assert done.stderr == ""


def test_the_interface_of_a_worker_and_the_sync_by_hand(run_program):
    done = run_program("""
import torch, torch.nn as nn
from typing import List
import miniray
from miniray.ps import create_parameter_server

@miniray.remote
class MyWorker:
    def __init__(self):
        self.model, self.device = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.device("cpu")

    def get_weights(self) -> List[torch.Tensor]:
        '''返回模型参数列表（线性化）'''
        return [p.detach().cpu() for p in self.model.parameters()]

    def set_weights(self, weights: List[torch.Tensor]):
        '''从参数列表恢复模型参数'''
        with torch.no_grad():
            for param, new_weight in zip(self.model.parameters(), weights):
                param.copy_(new_weight.to(self.device))

num_workers = 3
workers = [MyWorker.remote() for _ in range(num_workers)]
ps = create_parameter_server('average')

weight_lists = miniray.get([w.get_weights.remote() for w in workers])
avg_weights = []
for p in range(len(weight_lists[0])):
    tensors = [weight_lists[w][p] for w in range(num_workers)]
    avg_weights.append(torch.stack(tensors).mean(0))

ps.sync_from_workers.remote(workers)
for w in workers:
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(miniray.get(w.get_weights.remote()), avg_weights))
miniray.get([w.set_weights.remote(avg_weights) for w in workers])
print("same")
""", timeout=LONG)
    assert done.stdout == "same\n"
    assert done.stderr == ""


def test_a_worker_for_a_trainer(run_program):
    done = run_program("""
import torch, torch.nn as nn
import miniray
from miniray.train import DataParallelTrainer

@miniray.remote
class MyWorker:
    def __init__(self, worker_id):
        torch.manual_seed(worker_id)
        self.model = nn.Linear(10, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    # 必需方法 1：训练一个 epoch
    def train_epoch(self, epoch):
        loss = ((self.model(self.x) - self.y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        acc = float(loss < 1)
        return {"loss": loss.item(), "accuracy": acc}

    # 必需方法 2：获取模型参数
    def get_weights(self):
        return [p.detach().cpu() for p in self.model.parameters()]

    # 必需方法 3：设置模型参数
    def set_weights(self, weights):
        with torch.no_grad():
            for param, new_weight in zip(self.model.parameters(), weights):
                param.copy_(new_weight)

    # 可选方法：加载数据分片
    def load_data_shard(self, shard_id, num_shards, **kwargs):
        # 加载第 shard_id 个数据分片...
        self.x = torch.randn(64, 10)
        self.y = self.x.sum(1, keepdim=True)

class MyTrainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return MyWorker.remote(worker_id)

trainer = MyTrainer(num_workers=2, sync_interval=5, sync_strategy='average', display="quiet")
result = trainer.train(epochs=50, batch_size=128)
one, two = miniray.get([w.get_weights.remote() for w in trainer.workers])
trainer.shutdown()
print(len(result["history"]), all(torch.equal(a, b) for a, b in zip(one, two)),
      result["final"]["loss"] < result["history"][0]["loss"] / 10)
""", timeout=LONG)
    assert done.stdout == "50 True True\n"
