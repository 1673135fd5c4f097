// Every way ranks can reach each other.  Plain C++: no MPI or NCCL type crosses this line.
// Thread safety: any threads at once; of what is made, ops/communicator.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/communicator.h"

namespace mxo {

/// Ranks are threads of this process; any number of them.
std::unique_ptr<World> make_in_process_world();

/// Ranks are the processes of an MPI job, whose size `run` must be asked for.
/// Throws Error(unsupported) in a build without MPI.
std::unique_ptr<World> make_mpi_world();

/// True in a process that mpirun started and a build that has MPI.
bool started_by_mpi();

/// Ranks that each have a GPU of their own and a CUDA backend on it.  NCCL moves what lies in
/// device memory; the ranks of `hosts` agree, in every call, on what comes.
/// Throws Error(unsupported) in a build without NCCL.
std::unique_ptr<World> make_nccl_world(std::unique_ptr<World> hosts);

/// "in_process", "mpi" or "nccl", whose ranks are threads or, in a process that mpirun started,
/// processes; empty: mpi in a process that mpirun started, else in_process.
/// Throws Error(argument) for another name.
std::unique_ptr<World> make_world(std::string_view name);

/// One row of `mxo list communicators`.
struct CommunicatorRow {
  std::string name;
  bool available;
  std::string why;  ///< what it is, or why it is not here
};
std::vector<CommunicatorRow> list_communicators();

/// Empty if this build has it, else the reason.
std::string why_no_mpi();
std::string why_no_nccl();

}  // namespace mxo
