// Every way ranks can reach each other.  Plain C++: no MPI or NCCL type crosses this line.
#pragma once

#include <memory>
#include <string_view>

#include "ops/communicator.h"

namespace mxo {

/// Ranks are threads of this process; any number of them.
std::unique_ptr<World> make_in_process_world();

/// Ranks are the processes of an MPI job, whose size `run` must be asked for.
/// Throws Error(unsupported) in a build without MPI.
std::unique_ptr<World> make_mpi_world();

/// True in a process that mpirun started and a build that has MPI.
bool started_by_mpi();

/// "in_process" or "mpi"; empty: mpi in a process that mpirun started, else in_process.
/// Throws Error(argument) for another name.
std::unique_ptr<World> make_world(std::string_view name);

}  // namespace mxo
