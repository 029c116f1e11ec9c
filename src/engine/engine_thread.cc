#include <exception>
#include <thread>

#include "base/log.h"
#include "base/thread_name.h"
#include "engine/engine.h"

namespace octavo::engine {
namespace {
// An idle engine still looks at its deadlines this often.
constexpr std::chrono::milliseconds kIdleWait{100};
}  // namespace

struct EngineThread::State {
  explicit State(Engine& e) : engine(e) {}

  void run() {
    try {
      while (!stopping.load()) {
        const Result<bool> busy = engine.step();
        if (!busy.ok()) return;  // everybody has been told by engine_died
        if (!*busy) engine.wait_for_message(kIdleWait);
      }
    } catch (const std::exception& e) {
      // The engine ends its own failures; what still gets here may not end the process unheard.
      log::error(log::Source::kEngineCore, "The engine's thread ended: {}", e.what());
    }
  }

  Engine& engine;
  std::atomic<bool> stopping = false;
  std::thread thread;
};

EngineThread::EngineThread(Engine& engine) : state_(std::make_unique<State>(engine)) {}

EngineThread::~EngineThread() { stop(); }

void EngineThread::start() {
  state_->thread = std::thread([state = state_.get()] {
    name_this_thread("engine");
    state->run();
  });
}

void EngineThread::stop() {
  if (!state_->thread.joinable()) return;
  state_->stopping.store(true);
  state_->engine.interrupt();
  state_->thread.join();
}

}  // namespace octavo::engine
