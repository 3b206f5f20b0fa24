import subprocess,signal,time,sys,os
sig=getattr(signal,sys.argv[1]); t=float(sys.argv[2])
p=subprocess.Popen(["nice","./syn",*sys.argv[3:]],stdout=subprocess.PIPE,stderr=subprocess.STDOUT,text=True,preexec_fn=lambda: signal.signal(signal.SIGINT,signal.SIG_DFL))
time.sleep(t); s=time.time(); p.send_signal(sig)
try: o,_=p.communicate(timeout=60); print("rc",p.returncode,"after",round(time.time()-s,2)); print(o[-800:])
except subprocess.TimeoutExpired: print("STILL RUNNING 60 s after signal"); p.kill()
