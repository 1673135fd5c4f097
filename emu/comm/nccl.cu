// Ranks that have a GPU each: NCCL moves what lies in device memory, the hosts agree on what comes.
#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <string>

#include "emu/comm/nccl_ends.cuh"
#include "emu/communicators.h"
#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/device_backend.cuh"

namespace mxo {
namespace {

using Sizes = std::span<const std::size_t>;

/// What a rank tells the others before the first call.
struct Card {
  cudaUUID_t uuid;
  int device;
  pid_t process;
  ncclUniqueId id;  ///< rank 0's counts
};

cuda::DeviceBackend& device_of(Backend& backend) {
  auto* device = dynamic_cast<cuda::DeviceBackend*>(&backend);
  if (device != nullptr) return *device;
  throw Error(Fault::argument, "nccl: found backend " + std::string(backend.name()) +
                                   ", needs cuda: ranks that have a GPU each");
}

class NcclCommunicator : public Communicator {
 public:
  using Communicator::all_gather;
  using Communicator::all_to_all;
  NcclCommunicator(Communicator& hosts, NcclEnds& ends) : hosts_(hosts), ends_(ends) {}
  int rank() const override { return hosts_.rank(); }
  int size() const override { return hosts_.size(); }

  void all_to_all(std::span<const std::byte> send, Sizes send_bytes, std::span<std::byte> receive,
                  Sizes receive_bytes) override {
    hosts_.all_to_all(send, send_bytes, receive, receive_bytes);
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return hosts_.all_gather(mine);
  }
  void barrier() override { hosts_.barrier(); }
  void exchange_rows(const RowsOut& out, const RowsIn& in, std::size_t row_bytes) override {
    hosts_.exchange_rows(out, in, row_bytes);
  }

  void all_to_all(Backend& backend, std::span<const std::byte> send, Sizes send_bytes,
                  std::span<std::byte> receive, Sizes receive_bytes) override {
    check_counts("all_to_all", send_bytes, send.size(), "send");
    std::vector<std::span<const std::byte>> blocks;
    for (const std::size_t bytes : send_bytes) {
      blocks.push_back(send.first(bytes));
      send = send.subspan(bytes);
    }
    exchange("all_to_all", device_of(backend), blocks, receive, receive_bytes);
  }

  void all_gather(Backend& backend, std::span<const std::byte> mine, std::span<std::byte> all,
                  Sizes bytes) override {
    const std::vector blocks(static_cast<std::size_t>(size()), mine);
    exchange("all_gather", device_of(backend), blocks, all, bytes);
  }

 private:
  /// blocks[p] to rank p; what comes from rank p, receive_bytes[p] bytes, in rank order.
  void exchange(const char* call, cuda::DeviceBackend& device,
                const std::vector<std::span<const std::byte>>& blocks, std::span<std::byte> receive,
                Sizes receive_bytes) {
    check_counts(call, receive_bytes, receive.size(), "receive");
    agree(call, blocks, receive_bytes);
    join(device);
    const cudaStream_t stream = device.stream();
    const auto me = static_cast<std::size_t>(rank());
    const auto each = [&](auto&& move) {
      std::byte* to = receive.data();
      for (std::size_t p = 0; p < blocks.size(); ++p) {
        move(p, to);
        to += receive_bytes[p];
      }
    };
    ends_.group(rank(), [&](ncclComm_t comm) {
      each([&](std::size_t p, std::byte* to) {
        if (p == me) return;
        const auto peer = static_cast<int>(p);
        if (!blocks[p].empty()) {
          check_nccl(ncclSend(blocks[p].data(), blocks[p].size(), ncclUint8, peer, comm, stream),
                     "ncclSend");
        }
        if (receive_bytes[p] > 0) {
          check_nccl(ncclRecv(to, receive_bytes[p], ncclUint8, peer, comm, stream), "ncclRecv");
        }
      });
    });
    each([&](std::size_t p, std::byte* to) {
      if (p != me || blocks[p].empty()) return;
      cuda::check(
          cudaMemcpyAsync(to, blocks[p].data(), blocks[p].size(), cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync on the device");
    });
  }

  /// All ranks are in the same call and expect what the others send; so no kernel of NCCL waits
  /// for one that never comes.
  void agree(const char* call, const std::vector<std::span<const std::byte>>& blocks,
             Sizes receive_bytes) {
    std::vector<std::size_t> message = {static_cast<std::size_t>(call[4])};  // all_t.., all_g..
    for (const auto& block : blocks) message.push_back(block.size());
    const auto all = hosts_.all_gather(std::as_bytes(std::span(message)));
    for (std::size_t p = 0; p < all.size(); ++p) {
      std::vector<std::size_t> theirs(message.size());
      if (all[p].size() == message.size() * sizeof(std::size_t)) {
        std::memcpy(theirs.data(), all[p].data(), all[p].size());
      }
      if (theirs[0] != message[0]) {
        throw Error(Fault::argument,
                    std::string(call) + ": rank " + std::to_string(p) + " is in another call");
      }
      const std::size_t sent = theirs[1 + static_cast<std::size_t>(rank())];
      if (sent == receive_bytes[p]) continue;
      throw Error(Fault::shape, std::string(call) + ": rank " + std::to_string(p) + " has " +
                                    std::to_string(sent) + " bytes for rank " +
                                    std::to_string(rank()) + ", which needs " +
                                    std::to_string(receive_bytes[p]));
    }
  }

  /// Before the first call: a GPU for each rank, and one communicator for all of them.
  void join(const cuda::DeviceBackend& device) {
    if (device_ == device.device()) return;
    if (device_ >= 0) {
      throw Error(Fault::argument, "nccl: rank " + std::to_string(rank()) + " was on device " +
                                       std::to_string(device_) + ", found " +
                                       std::string(device.name()));
    }
    Card mine{};
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, device.device()), "cudaGetDeviceProperties");
    mine.uuid = properties.uuid;
    mine.device = device.device();
    mine.process = getpid();
    if (rank() == 0) check_nccl(ncclGetUniqueId(&mine.id), "ncclGetUniqueId");
    std::vector<Card> cards(static_cast<std::size_t>(size()));
    const auto all = hosts_.all_gather(std::as_bytes(std::span(&mine, 1)));
    for (std::size_t p = 0; p < cards.size(); ++p) {
      std::memcpy(&cards[p], all[p].data(), sizeof(Card));
      for (std::size_t q = 0; q < p; ++q) {
        if (std::memcmp(&cards[q].uuid, &cards[p].uuid, sizeof(cudaUUID_t)) != 0) continue;
        throw Error(Fault::unsupported, "nccl: ranks " + std::to_string(q) + " and " +
                                            std::to_string(p) +
                                            " are both on cuda:" + std::to_string(cards[p].device) +
                                            ", each needs a GPU of its own");
      }
    }
    open_memory(device, cards, mine.process);
    device.stream();  // makes the device current
    ends_.join(rank(), cards[0].id);
    device_ = device.device();
  }

  /// Ranks of one process write to each other's buffers, which memory from a pool allows only on
  /// request.
  static void open_memory(const cuda::DeviceBackend& device, const std::vector<Card>& cards,
                          pid_t process) {
    cudaMemPool_t pool = nullptr;
    cuda::check(cudaDeviceGetDefaultMemPool(&pool, device.device()), "cudaDeviceGetDefaultMemPool");
    for (const Card& card : cards) {
      int reaches = 0;
      if (card.process != process || card.device == device.device()) continue;
      cuda::check(cudaDeviceCanAccessPeer(&reaches, card.device, device.device()),
                  "cudaDeviceCanAccessPeer");
      if (reaches == 0) continue;
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = card.device;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      cuda::check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess");
    }
  }

  void check_counts(const char* call, Sizes counts, std::size_t bytes, const char* side) const {
    const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    if (counts.size() == static_cast<std::size_t>(size()) && sum == bytes) return;
    throw Error(Fault::shape, std::string(call) + ": " + side + ": found " +
                                  std::to_string(counts.size()) + " counts of " +
                                  std::to_string(sum) + " bytes in all, needs " +
                                  std::to_string(size()) + " of " + std::to_string(bytes));
  }

  Communicator& hosts_;
  NcclEnds& ends_;
  int device_ = -1;
};

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

class NcclWorld : public World {
 public:
  explicit NcclWorld(std::unique_ptr<World> hosts) : hosts_(std::move(hosts)) {}
  std::string_view name() const override { return "nccl"; }

  void run(int ranks, const std::function<void(Communicator&)>& body) override {
    NcclEnds ends(std::max(ranks, 1));
    try {
      hosts_->run(ranks, [&](Communicator& hosts) {
        NcclCommunicator mine(hosts, ends);
        try {
          body(mine);
        } catch (...) {
          ends.abort(hosts.rank(), std::current_exception(), words_of(std::current_exception()));
          throw;
        }
      });
    } catch (...) {
      ends.rethrow();
      throw;
    }
  }
  void agree_on(std::string_view question) override { hosts_->agree_on(question); }
  bool one_process() const override { return hosts_->one_process(); }
  bool writes() const override { return hosts_->writes(); }
  void check(const Backend& backend) const override {
    if (dynamic_cast<const cuda::DeviceBackend*>(&backend) != nullptr) return;
    throw Error(Fault::argument,
                "communicator nccl: found backend " + std::string(backend.name()) + ", needs cuda");
  }

 private:
  std::unique_ptr<World> hosts_;
};

}  // namespace

std::string why_no_nccl() { return why_no_cuda(); }

std::unique_ptr<World> make_nccl_world(std::unique_ptr<World> hosts) {
  return std::make_unique<NcclWorld>(std::move(hosts));
}

}  // namespace mxo
