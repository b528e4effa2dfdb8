# Flags for our own code, in one place. Warnings become errors in the presets, not here.
add_library(oubli_flags INTERFACE)
target_compile_options(oubli_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion
  -Wold-style-cast -Wcast-qual -Wcast-align -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
  -Wformat=2 -Wimplicit-fallthrough -Wundef
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op -Wsuggest-override>
  # g++ 12 sees overruns in std::string's own moves (its bugs 105329, 105651) once headers are
  # precompiled; the address sanitizer looks for real ones.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread>)
# Eigen and OpenSSL take care of their own threads; ours are std::jthread.
find_package(Threads REQUIRED)

if(OUBLI_ARCH)
  target_compile_options(oubli_flags INTERFACE -march=${OUBLI_ARCH})
endif()

# stb_image reckons with integers that wrap, shifts negative ones and copies nothing to null
# pointers. With these flags that is what it says, and sanitizers need not report it.
set(OUBLI_STB_OPTIONS -fwrapv -fno-delete-null-pointer-checks)

if(OUBLI_SANITIZE)
  list(APPEND OUBLI_STB_OPTIONS -fno-sanitize=shift,nonnull-attribute)
  # Global, so that every translation unit and the final link agree.
  add_compile_options(-fsanitize=${OUBLI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${OUBLI_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS OUBLI_ASSERTIONS=1)
endif()

if(OUBLI_BUILD_FUZZ)
  # Coverage that libFuzzer follows, in the library as well.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
