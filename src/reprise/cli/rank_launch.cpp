#include "reprise/cli/rank_launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "reprise/base/error.h"

namespace reprise::cli {
namespace {

std::optional<int> find_int(const LookUpVariable& look_up,
                            const std::string& variable,
                            int least,
                            int most) {
  const std::optional<std::string> text = look_up(variable);
  if (!text || text->empty()) return std::nullopt;
  int number = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc{} || stopped != end || number < least || number > most) {
    throw InvalidArgument(fmt::format(
        "{}={}: expected a number from {} to {}; a launcher of ranks sets this variable",
        variable,
        *text,
        least,
        most));
  }
  return number;
}

constexpr int kMost = 65535;

std::optional<LaunchedRank> find_mpirun(const LookUpVariable& look_up) {
  const int size = find_int(look_up, "OMPI_COMM_WORLD_SIZE", 1, kMost).value_or(1);
  if (size == 1) return std::nullopt;
  return LaunchedRank{.launcher = "mpirun",
                      .is_mpi = true,
                      .rank = find_int(look_up, "OMPI_COMM_WORLD_RANK", 0, size - 1).value_or(0),
                      .size = size,
                      .local_rank = find_int(look_up, "OMPI_COMM_WORLD_LOCAL_RANK", 0, size - 1),
                      .local_size = find_int(look_up, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, size)};
}

void find_master(const LookUpVariable& look_up, LaunchedRank& launched) {
  if (const auto address = look_up("MASTER_ADDR"); address && !address->empty()) {
    launched.address = *address;
  }
  if (const auto port = find_int(look_up, "MASTER_PORT", 1, kMost)) {
    launched.port = static_cast<uint16_t>(*port);
  }
}

std::optional<LaunchedRank> find_torchrun(const LookUpVariable& look_up) {
  const auto size = find_int(look_up, "WORLD_SIZE", 1, kMost);
  if (!size || *size == 1) return std::nullopt;
  const auto rank = find_int(look_up, "RANK", 0, *size - 1);
  if (!rank) return std::nullopt;
  LaunchedRank launched{.launcher = "RANK and WORLD_SIZE",
                        .rank = *rank,
                        .size = *size,
                        .local_rank = find_int(look_up, "LOCAL_RANK", 0, *size - 1),
                        .local_size = find_int(look_up, "LOCAL_WORLD_SIZE", 1, *size)};
  launched.listener_fd = find_int(look_up, "REPRISE_LISTENER_FD", 0, kMost).value_or(-1);
  find_master(look_up, launched);
  return launched;
}

std::optional<LaunchedRank> find_slurm(const LookUpVariable& look_up) {
  const auto size = find_int(look_up, "SLURM_NTASKS", 1, kMost);
  if (!size || *size == 1) return std::nullopt;
  const auto rank = find_int(look_up, "SLURM_PROCID", 0, *size - 1);
  if (!rank) return std::nullopt;
  LaunchedRank launched{.launcher = "SLURM",
                        .rank = *rank,
                        .size = *size,
                        .local_rank = find_int(look_up, "SLURM_LOCALID", 0, *size - 1)};
  if (const auto nodes = look_up("SLURM_STEP_NODELIST"); nodes && !nodes->empty()) {
    launched.address = first_node(*nodes);
  }
  find_master(look_up, launched);
  return launched;
}

}  // namespace

std::optional<LaunchedRank> find_launched_rank(const LookUpVariable& look_up) {
  if (auto launched = find_mpirun(look_up)) return launched;
  if (auto launched = find_torchrun(look_up)) return launched;
  return find_slurm(look_up);
}

std::string first_node(std::string_view nodes) {
  const size_t bracket = nodes.find_first_of("[,");
  std::string name(nodes.substr(0, bracket));
  if (bracket == std::string_view::npos || nodes[bracket] == ',') return name;
  nodes.remove_prefix(bracket + 1);
  return name + std::string(nodes.substr(0, nodes.find_first_of("-,]")));
}

bool has_mpirun(const LookUpVariable& look_up) {
  std::istringstream folders(look_up("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((std::filesystem::path(folder) / "mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace reprise::cli
