// Every command of mxo, in the order of its help.
#pragma once

#include "tools/command.h"

namespace mxo::tools {

extern const Command kList, kShow, kRun, kGenerate, kVerify, kCompare, kExplain, kReduce, kMuseum,
    kAudit, kFingerprint, kJudge, kTrain, kBench;

inline constexpr const Command* kCommands[] = {
    &kList,   &kShow,   &kRun,   &kGenerate,    &kVerify, &kCompare, &kExplain,
    &kReduce, &kMuseum, &kAudit, &kFingerprint, &kJudge,  &kTrain,   &kBench};

}  // namespace mxo::tools
