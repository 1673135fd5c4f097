"""DTensors on two ranks of gloo: quantize and dequantize have the bits of the whole tensor."""
import pytest

torch = pytest.importorskip("torch")
import torch.multiprocessing as mp  # noqa: E402

import mxoracle.torch as mxt  # noqa: E402

# block, sharded axis, whether shards are cast where they lie
CASES = [("1x32", 0, True), ("1x32", 1, True), ("32x1", 0, True), ("32x32", 1, True), ("1xK", 0, True),
         ("1xK", 1, False), ("Rx1", 0, False), ("RxK", 0, False), ("128x128", 0, False),
         ("1x64", 1, False)]  # fmt: skip


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def part(tensor, placement, rank):
    """gloo gathers no codes, so each rank looks at its own."""
    return tensor.chunk(2, placement.dim)[rank] if placement.is_shard() else tensor


def cast(rank, folder):
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode

    import mxoracle.torch.sharding  # noqa: F401

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    mesh, found = init_device_mesh("cpu", (2,)), []
    torch.manual_seed(0)
    x = torch.randn(128, 192)
    for block, axis, alone in CASES:
        want = mxt.quantize(x, block=block)
        back = mxt.dequantize(*want, "e4m3", "f32", block)
        with CommDebugMode() as sent:
            codes, scales = mxt.quantize(distribute_tensor(x, mesh, [Shard(axis)]), block=block)
            whole = mxt.dequantize(codes, scales, "e4m3", "f32", block)
        same = [torch.equal(bits(have.to_local()), bits(part(wanted, have.placements[0], rank)))
                for have, wanted in ((codes, want[0]), (scales, want[1]), (whole, back))]  # fmt: skip
        gathers = sum(count for op, count in sent.get_comm_counts().items() if "gather" in str(op))
        found.append((block, axis, all(same), gathers == 0))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_shards_have_the_bits_of_the_whole(tmp_path):
    mp.start_processes(cast, (str(tmp_path),), nprocs=2, start_method="spawn")
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt") == [(b, a, True, alone) for b, a, alone in CASES]
