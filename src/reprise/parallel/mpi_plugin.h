#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// A transport, or the reason why there is none.
struct LoadedTransport {
  std::unique_ptr<Transport> transport;
  std::string reason;  // empty if there is a transport
};

/// Loads the plug-in that links MPI, from the first of `paths` that exists, and joins the ranks
/// that mpirun started. Call it once in a process: MPI can be started only once. A program with one
/// rank never loads MPI.
[[nodiscard]] LoadedTransport load_mpi_plugin(std::span<const std::filesystem::path> paths);

/// Whether this build has the plug-in: one of `paths` exists.
[[nodiscard]] bool has_mpi_plugin(std::span<const std::filesystem::path> paths);

/// The paths of the plug-in: next to the running executable, and in ../lib from there.
[[nodiscard]] std::vector<std::filesystem::path> default_mpi_plugin_paths();

/// The message of a build without the plug-in.
[[nodiscard]] std::string missing_mpi_text();

/// The version of the interface between the plug-in and its loader. Both are built from one tree.
inline constexpr uint32_t kTransportVersion = 1;
inline constexpr const char* kMpiPluginFileName = "reprise_mpi.so";
inline constexpr const char* kTransportEntry = "reprise_create_transport";
/// Makes a transport, which the caller owns. nullptr: it cannot be used, and `reason` says why.
using TransportEntry = Transport* (*)(uint32_t version, std::string& reason);

}  // namespace reprise::parallel
