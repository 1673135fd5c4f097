// Tensors cut into the units of digests.
#include "tools/train/stages.h"

namespace mxo::tools {
namespace {

Bytes bytes_of(const Tensor& t) { return {t.data(), t.bytes()}; }

/// `count` equal parts.
std::vector<Bytes> parts_of(Bytes whole, Index count) {
  std::vector<Bytes> parts;
  const std::size_t size = count > 0 ? whole.size() / static_cast<std::size_t>(count) : 0;
  for (Index i = 0; i < count; ++i) {
    parts.push_back(whole.subspan(static_cast<std::size_t>(i) * size, size));
  }
  return parts;
}

}  // namespace

void StageRecorder::shared(const std::string& stage, Bytes bytes) {
  std::vector<Bytes> units;
  if (communicator_.rank() == 0) units.push_back(bytes);
  log_.add(communicator_, step_, stage, units);
}

void StageRecorder::tokens(const std::string& stage, const Tensor& rows, Index context) {
  log_.add(communicator_, step_, stage, parts_of(bytes_of(rows), rows.extent(0) / context));
}

void StageRecorder::tokens(const std::string& stage, const Matrix<float>& rows, Index context) {
  const Bytes bytes = std::as_bytes(std::span(rows.data(), static_cast<std::size_t>(rows.size())));
  log_.add(communicator_, step_, stage, parts_of(bytes, rows.rows() / context));
}

void StageRecorder::experts(const std::string& stage, const Tensor& rows, const Tensor& ends) {
  std::vector<Bytes> units;
  std::size_t first = 0;
  const std::size_t rows_in_all = static_cast<std::size_t>(rows.extent(0));
  const std::size_t row = rows_in_all > 0 ? rows.bytes() / rows_in_all : 0;
  for (Index e = 0; e < ends.elements(); ++e) {
    const auto end = static_cast<std::size_t>(ends.as<std::int32_t>()[e]);
    units.push_back(bytes_of(rows).subspan(first * row, (end - first) * row));
    first = end;
  }
  log_.add(communicator_, step_, stage, units);
}

void StageRecorder::parameter(const std::string& stage, const Parameter& p, const Tensor& tensor) {
  if (p.sharding != Sharding::experts) return shared(stage, bytes_of(tensor));
  log_.add(communicator_, step_, stage, parts_of(bytes_of(tensor), tensor.extent(0)));
}

void StageRecorder::state(const Parameters& parameters) {
  for (const Parameter& p : parameters.all()) {
    parameter("value." + p.name, p, p.value);
    parameter("mean." + p.name, p, p.mean);
    parameter("square." + p.name, p, p.square);
  }
}

}  // namespace mxo::tools
