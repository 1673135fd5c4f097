// Rows packed for an all-to-all, and put where they belong.
#include "ops/communicator.h"

#include <cstring>

#include "formats/error.h"

namespace mxo {

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
