RUN = sh tools/run.sh
