"""The code of the two documents on the parameter server and the train framework, unchanged, with the imports, data and
workers that it leaves out. The workers here use NumPy; test_documents_torch.py has those in torch."""

import re

WORKERS = """
import os
import numpy as np
import miniray
from miniray.ps import create_parameter_server
from miniray.train import BaseTrainer, DataParallelTrainer

class Model:
    def __init__(self, worker_id, *args, lr=0.01, **kwargs):
        self.id, self.lr = worker_id, lr
        self.weights = [np.full((3, 2), float(worker_id), np.float32), np.full(4, float(worker_id))]
    def get_weights(self):
        return self.weights
    def set_weights(self, weights):
        self.weights = weights
    def train_step(self):
        self.weights = [w + 1 for w in self.weights]
    def train_epoch(self, epoch):
        self.train_step()
        return {"loss": 1.0 / (epoch + 1 + self.id), "accuracy": 0.5 + self.id / 10, "g_loss": 1.0, "d_loss": self.id}
    def load_data_shard(self, shard_id, num_shards, **kwargs):
        self.shard = (shard_id, num_shards, kwargs)
    def get_shard(self):
        return self.shard
    def custom_method(self, epoch):
        return epoch + self.id

TrainingWorker = MyWorker = GANWorker = ClassificationWorker = CustomWorker = miniray.remote(Model)
"""


# ---- The parameter server.

SERVER = WORKERS + """
miniray.init(num_workers=4)
workers = [TrainingWorker.remote(i) for i in range(4)]
worker_refs, epochs, sync_interval, worker_id, weight = workers, 6, 3, 0, 2.0
"""


def test_basic_use(run_program):
    done = run_program(SERVER + """
# 1. 创建 ParameterServer
ps = create_parameter_server('average')

# 2. 在训练循环中同步参数
for epoch in range(epochs):
    # 训练...
    miniray.get([w.train_step.remote() for w in workers])
    if (epoch + 1) % sync_interval == 0:
        ps.sync_from_workers.remote(workers)

print([float(miniray.get(w.get_weights.remote())[0][0, 0]) for w in workers])
""")
    assert done.stdout == "[7.5, 7.5, 7.5, 7.5]\n"  # the mean of 0 to 3, and six steps
    assert done.stderr == ""


def test_the_strategies(run_program):
    done = run_program(SERVER + """
def synced(ps):
    for i, w in enumerate(workers[:2]):
        w.set_weights.remote([np.full((3, 2), float(i), np.float32)])
    miniray.get(ps.sync_from_workers.remote(workers[:2]))
    return float(miniray.get(ps.pull_weights.remote())[0][0, 0])

ps = create_parameter_server('average')
print(synced(ps))

ps = create_parameter_server('weighted')

# 设置各 Worker 的权重（如样本数量）
miniray.get(ps.set_worker_weight.remote(0, 1000))
miniray.get(ps.set_worker_weight.remote(1, 2000))
print(f"{synced(ps):.4f}")

ps = create_parameter_server('momentum', momentum=0.9)
print(synced(ps))
for w in workers:
    w.set_weights.remote([np.full((3, 2), 1.5, np.float32)])
miniray.get(ps.sync_from_workers.remote(workers))
print(f"{float(miniray.get(ps.pull_weights.remote())[0][0, 0]):.4f}")
""")
    assert done.stdout.split() == ["0.5", "0.6667", "0.5", "0.6000"]


def test_the_reference(run_program):
    done = run_program(SERVER + """
ps = create_parameter_server('average')
print(miniray.get(ps.pull_weights.remote()))
# 同步参数（最常用）
ps.sync_from_workers.remote(worker_refs)

# 获取全局参数
weights = miniray.get(ps.pull_weights.remote())

# 获取统计信息
stats = miniray.get(ps.get_stats.remote())
# 返回: {'version': 10, 'num_syncs': 10, 'strategy': 'AverageStrategy', ...}
print([float(w.flat[0]) for w in weights])

ps = create_parameter_server('weighted')
# 设置 Worker 权重（仅用于 weighted 策略）
ps.set_worker_weight.remote(worker_id, weight)

# 在训练过程中监控同步状态
for _ in range(9):
    ps.sync_from_workers.remote(workers)
miniray.get(ps.sync_from_workers.remote(workers))
stats = miniray.get(ps.get_stats.remote())

print(f"参数版本: {stats['version']}")
print(f"同步次数: {stats['num_syncs']}")
print(f"聚合策略: {stats['strategy']}")
print(f"是否已初始化: {stats['initialized']}")
""", environment={"PYTHONIOENCODING": "utf-8"})
    assert done.stdout.splitlines() == ["None", "[1.5, 1.5]", "参数版本: 10", "同步次数: 10", "聚合策略: WeightedStrategy",
                                        "是否已初始化: True"]


# ---- The train framework.

GAN_BY_ITSELF = """
# 只需 20 行！
class GANTrainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return GANWorker.remote(worker_id, self.latent_dim, self.lr)

    def on_epoch_end(self, epoch, result, **kwargs):
        print(f"G_loss: {result['g_loss']:.4f}, D_loss: {result['d_loss']:.4f}")

# 使用
trainer = GANTrainer(num_workers=4, sync_interval=5)
trainer.train(epochs=50, batch_size=128)
"""

GAN = """
class GANTrainer(DataParallelTrainer):
    def __init__(self, num_workers=4, latent_dim=100, lr=0.0002):
        super().__init__(num_workers=num_workers, sync_interval=5)
        self.latent_dim = latent_dim
        self.lr = lr

    def create_worker(self, worker_id, **kwargs):
        return GANWorker.remote(worker_id, self.latent_dim, self.lr)

    def on_epoch_end(self, epoch, result, **kwargs):
        super().on_epoch_end(epoch, result, **kwargs)
        print(f"  G_loss: {result['g_loss']:.4f}, D_loss: {result['d_loss']:.4f}")

# 使用
trainer = GANTrainer(num_workers=4)
trainer.train(epochs=50, batch_size=128)
"""

CLASSIFICATION = """
class ClassificationTrainer(DataParallelTrainer):
    def __init__(self, num_workers=4, lr=0.01):
        super().__init__(num_workers=num_workers, sync_interval=3)
        self.lr = lr

    def create_worker(self, worker_id, **kwargs):
        return ClassificationWorker.remote(worker_id, lr=self.lr)

    def on_epoch_end(self, epoch, result, **kwargs):
        super().on_epoch_end(epoch, result, **kwargs)
        print(f"  Accuracy: {result['accuracy']:.2%}")
"""

QUICK_START = """
class MyTrainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return MyWorker.remote(worker_id)

    # 可选：自定义 epoch 结束处理
    def on_epoch_end(self, epoch, result, **kwargs):
        super().on_epoch_end(epoch, result, **kwargs)
        print(f"Loss: {result['loss']:.4f}")

trainer = MyTrainer(
    num_workers=4,
    sync_interval=5,      # 每 5 个 epoch 同步参数
    sync_strategy='average'  # 参数聚合策略
)

result = trainer.train(epochs=50, batch_size=128)
shards = miniray.get([w.get_shard.remote() for w in trainer.workers])
stats = trainer.get_sync_stats()
trainer.shutdown()
print("shards", shards)
print("summary", result['epochs'], len(result['history']), stats['num_syncs'], miniray.is_initialized())
"""


def shown(done, pattern):
    """The lines that a hook printed, without the trainer's display."""
    return re.findall(rf"^{pattern}$", done.stdout, re.M)


def test_a_gan_trainer_of_twenty_lines(run_program):
    options = "DataParallelTrainer.latent_dim, DataParallelTrainer.lr = 100, 0.0002\n"
    done = run_program(WORKERS + options + GAN_BY_ITSELF)
    assert shown(done, r"G_loss: .*") == ["G_loss: 1.0000, D_loss: 1.5000"] * 50


def test_a_gan_trainer_with_a_constructor(run_program):
    done = run_program(WORKERS + GAN)
    assert shown(done, r"  G_loss: .*") == ["  G_loss: 1.0000, D_loss: 1.5000"] * 50


def test_the_three_steps(run_program):
    done = run_program(WORKERS + QUICK_START)
    losses = shown(done, r"Loss: (.*)")
    assert len(losses) == 50 and losses[0] == "0.5208" and losses == sorted(losses, reverse=True)
    assert shown(done, r"shards .*") == [f"shards {[(i, 4, {'batch_size': 128}) for i in range(4)]}"]
    assert shown(done, r"summary .*") == ["summary 50 50 10 False"]


def test_classification(run_program):
    done = run_program(WORKERS + CLASSIFICATION + """
# 使用
trainer = ClassificationTrainer(num_workers=4)
trainer.train(epochs=20, dataset='cifar10')
print("shard", miniray.get(trainer.workers[3].get_shard.remote()))
""")
    assert shown(done, r"  Accuracy: .*") == ["  Accuracy: 65.00%"] * 20
    assert shown(done, r"shard .*") == ["shard (3, 4, {'dataset': 'cifar10'})"]


def test_a_trainer_with_an_epoch_of_its_own(run_program):
    done = run_program(WORKERS + """
class CustomTrainer(BaseTrainer):
    def create_worker(self, worker_id, **kwargs):
        return CustomWorker.remote(worker_id)

    def train_epoch(self, epoch, **kwargs):
        # 完全自定义训练逻辑
        results = miniray.get([
            w.custom_method.remote(epoch) for w in self.workers
        ])
        return {"custom_metric": sum(results) / len(results)}

# 使用
trainer = CustomTrainer(num_workers=4)
result = trainer.train(epochs=10)
print("metrics", [one["custom_metric"] for one in result["history"]])
""")
    assert shown(done, r"metrics .*") == [f"metrics {[epoch + 1.5 for epoch in range(10)]}"]


def test_the_with_statement(run_program):
    done = run_program(WORKERS + CLASSIFICATION + """
with ClassificationTrainer(num_workers=4) as trainer:
    result = trainer.train(epochs=10)
    print("训练完成！")
# Mini-Ray 自动关闭
print(miniray.is_initialized(), len(result["history"]))
""", environment={"PYTHONIOENCODING": "utf-8"})
    assert done.stdout.endswith("训练完成！\nFalse 10\n")


def test_results_aggregated_in_another_way(run_program):
    done = run_program(WORKERS + """
class MyTrainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return MyWorker.remote(worker_id)

    def train_epoch(self, epoch, **kwargs):
        worker_results = miniray.get([
            w.train_epoch.remote(epoch) for w in self.workers
        ])

        # 自定义聚合逻辑
        aggregated = {
            'loss': np.median([r['loss'] for r in worker_results]),  # 中位数
            'max_acc': max(r['accuracy'] for r in worker_results),   # 最大值
        }

        # 参数同步（继承的逻辑）
        if (epoch + 1) % self.sync_interval == 0:
            self.param_server.sync_from_workers.remote(self.workers)
            aggregated['synced'] = True

        return aggregated

trainer = MyTrainer(num_workers=4, sync_interval=2)
result = trainer.train(epochs=4)
print("history", [(round(float(r['loss']), 4), r['max_acc'], r.get('synced')) for r in result['history']])
print("weights", [float(miniray.get(w.get_weights.remote())[0][0, 0]) for w in trainer.workers])
print("syncs", trainer.get_sync_stats()['num_syncs'])
""")
    assert shown(done, r"history .*") == ["history [(0.4167, 0.8, None), (0.2917, 0.8, True), (0.225, 0.8, None), "
                                          "(0.1833, 0.8, True)]"]
    assert shown(done, r"weights .*") == ["weights [5.5, 5.5, 5.5, 5.5]"]
    assert shown(done, r"syncs .*") == ["syncs 2"]


WEIGHTED = """
trainer = DataParallelTrainer(
    num_workers=4,
    sync_strategy='weighted'  # 使用加权平均
)

# 设置各 Worker 的权重（如样本数量）
trainer.set_worker_weight(0, 1000)
trainer.set_worker_weight(1, 2000)
trainer.set_worker_weight(2, 1500)
trainer.set_worker_weight(3, 2500)

trainer.train(epochs=50)
"""

MOMENTUM = """
trainer = DataParallelTrainer(
    num_workers=4,
    sync_strategy='momentum',
    momentum=0.9  # 策略参数
)

trainer.train(epochs=50)
"""

OWN_SUBCLASS = """
class Base(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return MyWorker.remote(worker_id)
DataParallelTrainer = Base
"""


def test_weights_of_workers(run_program):
    done = run_program(WORKERS + OWN_SUBCLASS + WEIGHTED + """
print("value", round(float(miniray.get(trainer.workers[0].get_weights.remote())[1][0]), 6))
print("strategy", trainer.get_sync_stats()['strategy'], trainer.get_sync_stats()['num_syncs'])
""")
    mean = (0 * 1000 + 1 * 2000 + 2 * 1500 + 3 * 2500) / 7000
    assert shown(done, r"value .*") == [f"value {round(mean + 50, 6)}"]
    assert shown(done, r"strategy .*") == ["strategy WeightedStrategy 50"]


def test_momentum(run_program):
    done = run_program(WORKERS + OWN_SUBCLASS + MOMENTUM + """
print("value", round(float(miniray.get(trainer.workers[0].get_weights.remote())[1][0]), 6))
""")
    value = 1.5 + 1
    for _ in range(49):
        value = 0.9 * value + 0.1 * (value + 1)
    assert shown(done, r"value .*") == [f"value {round(value, 6)}"]


def test_options_without_a_worker_are_an_error_that_says_what_is_missing(run_program):
    for block in (WEIGHTED, MOMENTUM):
        done = run_program(WORKERS + block, code=1)
        assert "NotImplementedError" in done.stderr and "create_worker" in done.stderr


def test_hooks(run_program, tmp_path):
    done = run_program(WORKERS + """
class MyTrainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        return MyWorker.remote(worker_id)

    def on_train_start(self, **kwargs):
        print("训练开始，初始化...")
        # 自定义初始化逻辑

    def on_epoch_start(self, epoch, **kwargs):
        print(f"Epoch {epoch} 开始")
        # Epoch 开始时的操作

    def on_epoch_end(self, epoch, result, **kwargs):
        super().on_epoch_end(epoch, result, **kwargs)
        # 保存检查点
        if (epoch + 1) % 10 == 0:
            self.save_checkpoint(epoch)

    def on_train_end(self, history, **kwargs):
        result = super().on_train_end(history, **kwargs)
        # 保存最终模型
        self.save_final_model()
        return result

trainer = MyTrainer(num_workers=4)
result = trainer.train(epochs=20)
print("epochs", result["epochs"])
""", environment={"PYTHONIOENCODING": "utf-8"})
    assert shown(done, "训练开始，初始化...") and shown(done, r"Epoch (\d+) 开始") == [str(i) for i in range(20)]
    assert shown(done, r"epochs .*") == ["epochs 20"]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "program.py"]
    assert len(written) == 3, written  # two checkpoints and the model


def test_what_constructs_a_trainer_starts_nothing(run_program):
    done = run_program(WORKERS + """
# 频繁同步：参数更一致，但开销大
trainer = DataParallelTrainer(sync_interval=1)

# 稀疏同步：开销小，但参数可能发散
trainer = DataParallelTrainer(sync_interval=10)

# 推荐：5-10
trainer = DataParallelTrainer(sync_interval=5)

# Worker 数量 = CPU 核心数 / 2（推荐）
import os
num_workers = os.cpu_count() // 2

trainer = DataParallelTrainer(num_workers=num_workers)
print(miniray.is_initialized(), trainer.num_workers == num_workers)
""")
    assert done.stdout == "False True\n"


def test_batch_sizes_and_arguments_of_workers(run_program):
    done = run_program(WORKERS + """
class Trainer(DataParallelTrainer):
    def create_worker(self, worker_id, **kwargs):
        lr = kwargs.get('lr', 0.01)
        return MyWorker.remote(worker_id, lr=lr)

trainer = Trainer(num_workers=2, display="quiet")
trainer.train(epochs=50, lr=0.001)  # 传递给 create_worker

# 总批量大小 = batch_size * num_workers
# 建议保持总批量大小不变，调整 batch_size
total_batch = 512
num_workers = 4
batch_size = total_batch // num_workers  # 128

trainer.train(epochs=50, batch_size=batch_size)
print(miniray.get(trainer.workers[1].get_shard.remote()))
""")
    assert done.stdout == "(1, 2, {'batch_size': 128})\n"


def test_the_classes_have_the_methods_that_are_listed(run_program):
    done = run_program("""
from miniray.train import BaseTrainer, DataParallelTrainer
import inspect
for name in ("train", "create_worker", "train_epoch", "on_train_start", "on_train_end", "on_epoch_start",
             "on_epoch_end"):
    print(name, inspect.signature(getattr(BaseTrainer, name)))
for name in ("set_worker_weight", "get_sync_stats"):
    print(name, inspect.signature(getattr(DataParallelTrainer, name)))
""")
    assert done.stdout.splitlines() == [
        "train (self, epochs, **kwargs)", "create_worker (self, worker_id, **kwargs)",
        "train_epoch (self, epoch, **kwargs)", "on_train_start (self, **kwargs)",
        "on_train_end (self, history, **kwargs)",
        "on_epoch_start (self, epoch, **kwargs)", "on_epoch_end (self, epoch, result, **kwargs)",
        "set_worker_weight (self, worker_id, weight)", "get_sync_stats (self)"]


def test_the_loop_that_people_wrote_before(run_program):
    """The handwritten training loop at the beginning of the document, with its gaps filled."""
    done = run_program(WORKERS + """
class DistributedGANTrainer:
    num_workers, sync_interval = 4, 5
    def train(self, epochs):
        # 1. 初始化 Mini-Ray
        miniray.init(num_workers=self.num_workers)

        # 2. 创建 Workers
        workers = [GANWorker.remote(i) for i in range(self.num_workers)]

        # 3. 数据分片
        miniray.get([w.load_data_shard.remote(i, self.num_workers) for i, w in enumerate(workers)])

        # 4. 训练循环
        for epoch in range(epochs):
            results = miniray.get([w.train_epoch.remote(epoch) for w in workers])

            # 5. 聚合结果
            avg_loss = np.mean([r["loss"] for r in results])

            # 6. 参数同步
            if (epoch + 1) % self.sync_interval == 0:
                weight_lists = miniray.get([w.get_weights.remote() for w in workers])
                avg_weights = [np.mean(same, axis=0) for same in zip(*weight_lists)]
                miniray.get([w.set_weights.remote(avg_weights) for w in workers])

        # 7. 清理
        miniray.shutdown()
        return avg_loss

print(f"{DistributedGANTrainer().train(10):.4f}")
""")
    assert done.stdout == "0.0878\n"
