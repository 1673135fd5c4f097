// The stages of one step on their way into the digests.
#pragma once

#include "tools/train/digest.h"
#include "tools/train/matrix.h"
#include "tools/train/parameters.h"

namespace mxo::tools {

/// Every call is collective.
class StageRecorder {
 public:
  StageRecorder(DigestLog& log, Communicator& communicator, Index step)
      : log_(log), communicator_(communicator), step_(step) {}

  /// The same on every rank.
  void shared(const std::string& stage, Bytes bytes);
  /// Rows of this rank's tokens; a sequence has `context` of them.
  void tokens(const std::string& stage, const Tensor& rows, Index context);
  void tokens(const std::string& stage, const Matrix<float>& rows, Index context);
  /// Rows of this rank's experts up to `ends` [E/P], what padding lies between them included.
  void experts(const std::string& stage, const Tensor& rows, const Tensor& ends);
  /// A tensor of a parameter: its value, gradient or a moment.
  void parameter(const std::string& stage, const Parameter& p, const Tensor& tensor);
  /// Values and moments of all of them.
  void state(const Parameters& parameters);

 private:
  DigestLog& log_;
  Communicator& communicator_;
  Index step_;
};

}  // namespace mxo::tools
