#include "reprise/api/loading/replay_log.h"

#include <utility>

#include "reprise/api/loading/engine_record.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/parallel/communicator.h"
#include "reprise/replay_log/log_writer.h"

namespace reprise::api {

Descriptor open_replay_log(const EngineArgs& args, ResolvedOptions& options) {
  const bool has_requests = args.ranks == nullptr || args.ranks->rank() == 0;
  if (args.replay_log.empty() || !has_requests) return {};
  Descriptor file = replay_log::open_log(args.replay_log);
  if (std::string warning = replay_log::privacy_warning(args.replay_log); !warning.empty())
    options.warnings.push_back(std::move(warning));
  return file;
}

void start_replay_log(LoadedEngine& engine, Descriptor file) {
  if (file.number() < 0) return;
  // The writer's thread reads the files, which may take seconds; it does not touch the engine.
  auto describe = [record = engine_record(engine), model = engine.args.model]() mutable {
    add_file_digests(model, record);
    return std::move(record);
  };
  engine.replay_log = std::make_unique<replay_log::LogWriter>(
      std::move(file),
      replay_log::LogWriterOptions{.path = engine.args.replay_log,
                                   .describe_engine = std::move(describe),
                                   .log = engine.args.log_line});
}

engine::OnRecord on_record_of(LoadedEngine& engine) {
  if (engine.replay_log == nullptr) return {};
  return [log = engine.replay_log.get()](replay_log::RequestRecord&& record) {
    log->append(std::move(record));
  };
}

}  // namespace reprise::api
