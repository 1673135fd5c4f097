// The only way to call Backend::run, and the wording all argument checks share.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/any_view.h"
#include "ops/backend.h"
#include "ops/float_environment.h"

namespace mxo {

/// The only friend of Backend::run, so that nothing reaches it unchecked.  Arithmetic begins here:
/// Error(unsupported) where the calling thread's is not IEEE's.
struct Checked {
  template <typename Op>
  static void run(Backend& backend, const Op& op) {
    require_ieee_arithmetic();
    backend.run(op);
  }
};

/// Argument checks of one operator.  Every message reads
/// "operator: operand: found ..., needs ...".
class Check {
 public:
  explicit constexpr Check(std::string_view op) : op_(op) {}

  /// Throws Error(shape) "op: what" unless `holds`.
  void that(bool holds, const std::string& what) const;
  /// Throws Error(fault) "op: what".
  [[noreturn]] void fail(Fault fault, const std::string& what) const;
  template <typename Void>
  void rank(std::string_view operand, const AnyView<Void>& view, int needed) const {
    rank_between(operand, describe(view), view.rank, needed, needed);
  }
  template <typename Void>
  void rank(std::string_view operand, const AnyView<Void>& view, int least, int most) const {
    rank_between(operand, describe(view), view.rank, least, most);
  }
  template <typename Void>
  void dtype(std::string_view operand, const AnyView<Void>& view,
             std::initializer_list<Dtype> allowed) const {
    dtype_among(operand, view.dtype, allowed);
  }
  /// The extents of `view` must be `needed`, axis by axis.
  template <typename Void>
  void shape(std::string_view operand, const AnyView<Void>& view,
             std::initializer_list<Index> needed) const {
    shape_is(operand, describe(view), view.rank, view.extent, {needed.begin(), needed.size()});
  }
  template <typename Void>
  void shape(std::string_view operand, const AnyView<Void>& view,
             const std::vector<Index>& needed) const {
    shape_is(operand, describe(view), view.rank, view.extent, needed);
  }
  /// `value` must be a positive multiple of `factor`, or zero.
  void multiple(std::string_view operand, std::string_view what, Index value, Index factor) const;
  /// Ends of groups on the host: i32, non-decreasing, from 0 to at most `rows`; `multiple_of`
  /// asks that each end be a multiple of it.  A device checks its own at synchronize().
  void group_ends(const Backend& backend, const Operand& ends, Index rows,
                  Index multiple_of = 1) const;
  /// No byte of `written` may be a byte of `read`, and a result may not cover one of its elements
  /// twice: by steps of none along an axis, or the same along two.
  void apart(std::string_view out, const Result& written, std::string_view in,
             const Operand& read) const;
  /// Nor may two results share bytes.
  void apart(std::string_view out, const Result& written, std::string_view other,
             const Result& also_written) const;

 private:
  void rank_between(std::string_view operand, const std::string& found, int rank, int least,
                    int most) const;
  void dtype_among(std::string_view operand, Dtype found,
                   std::initializer_list<Dtype> allowed) const;
  void shape_is(std::string_view operand, const std::string& found, int rank, const Index* extent,
                std::span<const Index> needed) const;
  std::string_view op_;
};

}  // namespace mxo
