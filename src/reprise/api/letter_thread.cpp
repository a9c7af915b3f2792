#include "reprise/api/letter_thread.h"

#include <chrono>
#include <utility>

namespace reprise::api {

LetterThread::LetterThread(const parallel::Communicator& replicas, Handlers handlers)
    : replicas_(&replicas),
      mailbox_(replicas),
      handlers_(std::move(handlers)),
      thread_([this] { run(); }) {}

LetterThread::~LetterThread() { stop(); }

void LetterThread::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

void LetterThread::post(int to, std::vector<std::byte> letter) noexcept {
  try {
    mailbox_.post(to, std::move(letter));
  } catch (const std::exception& error) {
    // The thread reports it.
    replicas_->link().fail(error.what());
  }
}

void LetterThread::post_to_others(const std::vector<std::byte>& letter) noexcept {
  for (int to = 0; to < replicas_->size(); ++to) {
    if (to != replicas_->rank()) post(to, letter);
  }
}

void LetterThread::run() {
  try {
    move_letters();
  } catch (const std::exception& error) {
    replicas_->link().fail(error.what());
    handlers_.fail(error.what());
  }
}

void LetterThread::move_letters() {
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
