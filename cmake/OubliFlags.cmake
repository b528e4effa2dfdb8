# Flags for our own code, in one place. Warnings become errors in the presets, not here.
add_library(oubli_flags INTERFACE)
target_compile_options(oubli_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion
  -Wold-style-cast -Wcast-qual -Wcast-align -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
  -Wformat=2 -Wimplicit-fallthrough -Wundef
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wsuggest-override>)
# Eigen and OpenSSL take care of their own threads; ours are std::jthread.
find_package(Threads REQUIRED)

if(OUBLI_ARCH)
  target_compile_options(oubli_flags INTERFACE -march=${OUBLI_ARCH})
endif()

if(OUBLI_SANITIZE)
  # Global, so that every translation unit and the final link agree.
  add_compile_options(-fsanitize=${OUBLI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${OUBLI_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS OUBLI_ASSERTIONS=1)
endif()

if(OUBLI_BUILD_FUZZ)
  # Coverage that libFuzzer follows, in the library as well.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
