#include "reprise/api/replicas/message_thread.h"

#include <chrono>
#include <utility>

namespace reprise::api {

MessageThread::MessageThread(const parallel::Communicator& replicas, Handlers handlers)
    : replicas_(&replicas),
      mailbox_(replicas),
      handlers_(std::move(handlers)),
      thread_([this] { run(); }) {}

MessageThread::~MessageThread() { stop(); }

void MessageThread::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void MessageThread::post(int to, std::vector<std::byte> message) noexcept {
  try {
    mailbox_.post(to, std::move(message));
  } catch (const std::exception& error) {
    // The thread reports it.
    replicas_->link().fail(error.what());
  }
}

void MessageThread::post_to_others(const std::vector<std::byte>& message) noexcept {
  for (int to = 0; to < replicas_->size(); ++to) {
    if (to != replicas_->rank()) post(to, message);
  }
}

void MessageThread::run() {
  try {
    move_messages();
  } catch (const std::exception& error) {
    replicas_->link().fail(error.what());
    handlers_.fail(error.what());
  }
}

void MessageThread::move_messages() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_move = Clock::now();
  for (;;) {
    const bool is_last = stops_ && mailbox_.is_sent();
    if (mailbox_.poll(handlers_.take)) last_move = Clock::now();
    if (is_last) return;
    if (handlers_.look) handlers_.look();
    parallel::pause_between_looks(Clock::now() - last_move);
  }
}

}  // namespace reprise::api
