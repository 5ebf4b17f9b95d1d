// The macro LOG of Abseil's absl/log/log.h, as far as DeepMind Lab uses it.
// Abseil has it since 20230125; Debian 12 and Ubuntu 22.04 have earlier ones.

#ifndef DMLAB_BUILD_ABSL_LOG_LOG_H_
#define DMLAB_BUILD_ABSL_LOG_LOG_H_

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace dmlab_build {

// A line that is written to stderr, whole, when the statement ends.
class Message {
 public:
  Message(char severity, const char* file, int line) {
    stream_ << severity << ' ' << file << ':' << line << "] ";
  }
  ~Message() { Write(); }

  template <typename T>
  Message& operator<<(const T& value) {
    stream_ << value;
    return *this;
  }
  Message& self() { return *this; }

 protected:
  void Write() {
    stream_ << '\n';
    std::cerr << stream_.str() << std::flush;
    stream_.str("");
  }

 private:
  std::ostringstream stream_;
};

// Ends the process with a core, if any.
struct Fatal : Message {
  using Message::Message;
  [[noreturn]] ~Fatal() {
    Write();
    std::abort();
  }
};

// Ends the process quietly.
struct QFatal : Message {
  using Message::Message;
  [[noreturn]] ~QFatal() {
    Write();
    std::_Exit(1);
  }
};

}  // namespace dmlab_build

#define DMLAB_BUILD_INFO ::dmlab_build::Message('I', __FILE__, __LINE__)
#define DMLAB_BUILD_WARNING ::dmlab_build::Message('W', __FILE__, __LINE__)
#define DMLAB_BUILD_ERROR ::dmlab_build::Message('E', __FILE__, __LINE__)
#define DMLAB_BUILD_FATAL ::dmlab_build::Fatal('F', __FILE__, __LINE__)
#define DMLAB_BUILD_QFATAL ::dmlab_build::QFatal('F', __FILE__, __LINE__)

#define LOG(severity) DMLAB_BUILD_##severity.self()

// The switch keeps an `else` that follows from becoming this one's.
#define LOG_IF(severity, condition) \
  switch (0)                        \
  case 0:                           \
  default:                          \
    if (!(condition)) {             \
    } else                          \
      LOG(severity)

#endif  // DMLAB_BUILD_ABSL_LOG_LOG_H_
