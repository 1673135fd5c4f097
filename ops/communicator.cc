// Rows packed for an all-to-all, and put where they belong.
#include "ops/communicator.h"

#include <cstring>
#include <string>

#include "formats/error.h"
#include "ops/backend.h"

namespace mxo {

void Communicator::all_to_all(Backend& backend, std::span<const std::byte> send,
                              std::span<const std::size_t> send_bytes, std::span<std::byte> receive,
                              std::span<const std::size_t> receive_bytes) {
  if (backend.reads_host_memory()) return all_to_all(send, send_bytes, receive, receive_bytes);
  std::vector<std::byte> out(send.size());
  std::vector<std::byte> in(receive.size());
  backend.synchronize();
  backend.download(out.data(), send.data(), out.size());
  all_to_all(out, send_bytes, in, receive_bytes);
  backend.upload(receive.data(), in.data(), in.size());
}

void Communicator::all_gather(Backend& backend, std::span<const std::byte> mine,
                              std::span<std::byte> all, std::span<const std::size_t> bytes) {
  std::vector<std::byte> here(mine.size());
  backend.synchronize();
  backend.download(here.data(), mine.data(), here.size());
  const auto parts = all_gather(here);
  std::byte* to = all.data();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].size() != bytes[p]) {
      throw Error(Fault::shape, "all_gather: rank " + std::to_string(p) + " has " +
                                    std::to_string(parts[p].size()) + " bytes for rank " +
                                    std::to_string(rank()) + ", which needs " +
                                    std::to_string(bytes[p]));
    }
    backend.upload(to, parts[p].data(), parts[p].size());
    to += parts[p].size();
  }
}

void Communicator::exchange_rows(const RowsOut& out, const RowsIn& in, std::size_t row_bytes) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::size_t> send_bytes(ranks);
  std::vector<std::size_t> receive_bytes(ranks);
  for (std::size_t p = 0; p < ranks; ++p) {
    send_bytes[p] = static_cast<std::size_t>(out.counts[p]) * row_bytes;
    receive_bytes[p] = static_cast<std::size_t>(in.counts[p]) * row_bytes;
  }
  std::vector<std::byte> send(out.order.size() * row_bytes);
  for (std::size_t i = 0; i < out.order.size() && row_bytes > 0; ++i) {
    std::memcpy(send.data() + i * row_bytes,
                out.rows + static_cast<std::size_t>(out.order[i]) * row_bytes, row_bytes);
  }
  std::vector<std::byte> receive(in.place.size() * row_bytes);
  all_to_all(send, send_bytes, receive, receive_bytes);
  for (std::size_t i = 0; i < in.place.size() && row_bytes > 0; ++i) {
    std::memcpy(in.rows + static_cast<std::size_t>(in.place[i]) * row_bytes,
                receive.data() + i * row_bytes, row_bytes);
  }
}

}  // namespace mxo
